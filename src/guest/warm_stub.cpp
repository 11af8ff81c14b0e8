#include "guest/warm_stub.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/signals.h"
#include "base/strings.h"
#include "guest/child_ends.h"
#include "guest/identity.h"

namespace atl::guest {
namespace {

// The image's own numbers are below `base`; the two files and, until the program is executed, the
// ends of the pipes are above.
struct Numbers {
  int base = 0;
  int status = -1;
  int output = -1;
  int error_output = -1;
  int channel = -1;
};

int first_free_number(const WarmImage& image) {
  constexpr int kAboveStandard = 16;
  const int last =
      image.descriptors.empty() ? 0 : static_cast<int>(image.descriptors.back().number);
  return std::max(last + 1, kAboveStandard);
}

Result<Numbers> lift_ends(ChildEnds ends, int base, int memory, int plan) {
  const int above = base + 2;
  const auto lift = [&](int fd) { return fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, above); };
  Numbers numbers{.base = base,
                  .status = lift(ends.status.release()),
                  .output = lift(ends.output.release()),
                  .error_output = lift(ends.error_output.release()),
                  .channel = lift(ends.channel.release())};
  const int lifted_memory = lift(memory);
  const int lifted_plan = lift(plan);
  if (numbers.status < 0 || lifted_memory < 0 || lifted_plan < 0 ||
      ::dup2(lifted_memory, base) < 0 || ::dup2(lifted_plan, base + 1) < 0) {
    return fail_errno("arranging descriptors");
  }
  if (::syscall(SYS_close_range, 0U, static_cast<unsigned>(base - 1), 0U) != 0 ||
      ::syscall(SYS_close_range, static_cast<unsigned>(above), ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
    return fail_errno("closing descriptors");
  }
  return numbers;
}

Result<> place(int fd, std::uint32_t number) {
  if (fd < 0 || (fd != static_cast<int>(number) && ::dup2(fd, static_cast<int>(number)) < 0)) {
    return fail_errno(concat("arranging descriptor ", number));
  }
  return {};
}

Result<> open_path(const Descriptor& descriptor) {
  const int flags = static_cast<int>(descriptor.flags) & ~(O_CLOEXEC | O_CREAT | O_TRUNC);
  const int fd = ::open(descriptor.path.c_str(), flags | O_NOCTTY);
  if (fd < 0) {
    return fail(errno_error(concat("opening ", descriptor.path, " again")));
  }
  struct stat opened{};
  if (::fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode) && (flags & O_PATH) == 0 &&
      ::lseek(fd, static_cast<off_t>(descriptor.value), SEEK_SET) < 0) {
    return fail(errno_error(concat("finding the place in ", descriptor.path)));
  }
  TRY_DO(place(fd, descriptor.number));
  if (fd != static_cast<int>(descriptor.number)) {
    ::close(fd);
  }
  return {};
}

Result<> open_one(const Descriptor& descriptor, const Numbers& numbers) {
  switch (descriptor.kind) {
    case DescriptorKind::kPath:
      return open_path(descriptor);
    case DescriptorKind::kSame:
      return place(static_cast<int>(descriptor.value), descriptor.number);
    case DescriptorKind::kOutput:
      return place(numbers.output, descriptor.number);
    case DescriptorKind::kErrorOutput:
      return place(numbers.error_output, descriptor.number);
    case DescriptorKind::kChannel:
      return place(numbers.channel, descriptor.number);
    case DescriptorKind::kEvent: {
      const bool waits = (descriptor.flags & O_NONBLOCK) == 0;
      const int fd = ::eventfd(static_cast<unsigned>(descriptor.value), waits ? 0 : EFD_NONBLOCK);
      TRY_DO(place(fd, descriptor.number));
      if (fd != static_cast<int>(descriptor.number)) {
        ::close(fd);
      }
      return {};
    }
  }
  return {};
}

Result<> check_files(const WarmImage& image) {
  for (const MappedFile& mapped : image.files) {
    struct stat file{};
    if (::stat(mapped.path.c_str(), &file) != 0 ||
        static_cast<std::uint64_t>(file.st_size) != mapped.bytes ||
        modified_ns(file) != mapped.modified_ns) {
      return fail(Code::kFailedPrecondition, concat(mapped.path, " is not the file it was"),
                  "file_changed");
    }
  }
  return {};
}

// What the image had and this sandbox does not allow stays as the sandbox has it.
void set_limits(const WarmImage& image) {
  for (std::size_t i = 0; i < image.limits.size(); ++i) {
    const rlimit limit{image.limits[i].soft, image.limits[i].hard};
    if (::setrlimit(static_cast<__rlimit_resource>(i), &limit) != 0) {
      errno = 0;
    }
  }
}

// What the image does not have. The status says whether the program could be executed, and closes
// when it is.
Result<> close_others(const Numbers& numbers) {
  const auto above = static_cast<unsigned>(numbers.base + 2);
  const auto status = static_cast<unsigned>(numbers.status);
  if ((status > above && ::syscall(SYS_close_range, above, status - 1, 0U) != 0) ||
      ::syscall(SYS_close_range, status + 1, ~0U, 0U) != 0) {
    return fail_errno("closing descriptors");
  }
  return {};
}

Result<> become_stub(const SpawnRequest& request, const WarmImage& image, const Numbers& numbers) {
  raise_oom_score();
  TRY(const auto identity, find_identity(request.user));
  TRY_DO(assume_identity(identity));
  ::umask(image.file_mask);
  if (::chdir(image.directory.c_str()) != 0) {
    return fail(errno_error(concat("changing to ", image.directory)));
  }
  TRY_DO(check_files(image));
  for (const Descriptor& descriptor : image.descriptors) {
    TRY_DO(open_one(descriptor, numbers));
  }
  TRY_DO(close_others(numbers));
  TRY_DO(write_all(numbers.status, encode_report({image.directory, identity.name})));
  set_limits(image);
  reset_signals();
  // Stops here, so that the agent can say what it wants to be told of.
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0 || ::raise(SIGSTOP) != 0) {
    return fail_errno("asking to be traced");
  }
  std::string name = image.name;
  char* const arguments[] = {name.data(), nullptr};
  char* const environment[] = {nullptr};
  ::execve(image.program.c_str(), arguments, environment);
  return fail(errno_error(concat("executing ", image.program)));
}

[[noreturn]] void run_stub(const SpawnRequest& request, const WarmImage& image, ChildEnds ends,
                           int memory, int plan) {
  int status = ends.status.get();
  ::setsid();
  Result<> became;
  if (auto numbers = lift_ends(std::move(ends), first_free_number(image), memory, plan)) {
    status = numbers->status;
    became = become_stub(request, image, *numbers);
  } else {
    became = fail(std::move(numbers).error());
  }
  if (!became) {
    (void)write_all(status, encode_start_failure(became.error()));
  }
  ::_exit(127);
}

}  // namespace

Result<Stub> start_stub(const SpawnRequest& request, const WarmImage& image, const Fd& memory,
                        const Fd& plan) {
  TRY(auto ends, make_ends(request));
  Stub stub;
  TRY(stub.status, ends.child.status.duplicate());
  const int base = first_free_number(image);
  stub.descriptors = {.memory = base, .plan = base + 1};
  const pid_t pid = ::fork();
  if (pid < 0) {
    return cannot_fork(errno);
  }
  if (pid == 0) {
    run_stub(request, image, std::move(ends.child), memory.get(), plan.get());
  }
  stub.spawned = std::move(ends.parent);
  stub.spawned.pid = pid;
  return stub;
}

}  // namespace atl::guest
