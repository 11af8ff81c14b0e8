#include "guest/warm_owning.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/fd.h"
#include "base/strings.h"
#include "guest/limits.h"
#include "guest/process.h"
#include "guest/warm_areas.h"
#include "guest/warm_headroom.h"
#include "guest/warm_stopped.h"

namespace atl::guest {
namespace {

constexpr std::uint64_t kChunkBytes = 1U << 20;
constexpr std::size_t kMaxStatusFileBytes = std::size_t{64} * 1024;
constexpr std::size_t kMaxKernelPagesBytes = std::size_t{64} * 1024;
constexpr std::array<char, kPageBytes> kZeroes{};

bool is_of_image(const Area& area) {
  return !area.shared && area.name.starts_with(kImageMappingName);
}

class Owning {
 public:
  Owning(pid_t pid, const OwningTime& time) : pid_(pid), time_(time), process_(pid) {}
  Result<std::uint64_t> run();

 private:
  Result<> find_instruction(const std::vector<Area>& areas);
  Result<> own(const Area& area);
  Result<> move(std::uint64_t from, const Area& area);
  Result<> copy(std::uint64_t from, std::uint64_t to, std::uint64_t bytes);

  const pid_t pid_;
  const OwningTime time_;
  StoppedProcess process_;
  Fd memory_;
  std::uint64_t instruction_ = 0;
  std::string buffer_;
};

Result<> Owning::find_instruction(const std::vector<Area>& areas) {
  const auto found = std::ranges::find(areas, "[vdso]", &Area::name);
  if (found == areas.end() || found->bytes() > kMaxKernelPagesBytes) {
    return cannot_own("it has no pages for fast system calls");
  }
  std::string code(found->bytes(), '\0');
  if (::pread(memory_.get(), code.data(), code.size(), static_cast<off_t>(found->start)) !=
      static_cast<ssize_t>(code.size())) {
    return cannot_own("its pages for fast system calls cannot be read");
  }
  const std::size_t at = find_call_instruction(code);
  if (at == std::string::npos) {
    return cannot_own("its pages for fast system calls make none");
  }
  instruction_ = found->start + at;
  return {};
}

// Pages that are all zero stay untouched.
Result<> Owning::copy(std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
  buffer_.resize(kChunkBytes);
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t wanted = std::min(kChunkBytes, bytes - done);
    const ssize_t got =
        ::pread(memory_.get(), buffer_.data(), wanted, static_cast<off_t>(from + done));
    if (got < 0) {
      return fail_errno("reading the memory of a process");
    }
    if (got != static_cast<ssize_t>(wanted)) {
      return cannot_own("its memory cannot be read as a whole");
    }
    for (std::uint64_t at = 0; at < wanted;) {
      std::uint64_t end = at;
      while (end < wanted && std::memcmp(buffer_.data() + end, kZeroes.data(), kPageBytes) != 0) {
        end += kPageBytes;
      }
      if (end > at) {
        const ssize_t put = ::pwrite(memory_.get(), buffer_.data() + at, end - at,
                                     static_cast<off_t>(to + done + at));
        if (put < 0) {
          return fail_errno("writing the memory of a process");
        }
        if (put != static_cast<ssize_t>(end - at)) {
          return cannot_own("there is no memory for it");
        }
      }
      at = end == at ? at + kPageBytes : end;
    }
    done += wanted;
  }
  return {};
}

Result<> Owning::own(const Area& area) {
  constexpr std::uint64_t kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  TRY(const std::uint64_t place,
      process_.call(instruction_,
                    {SYS_mmap, {0, area.bytes(), PROT_READ | PROT_WRITE, kFlags, ~0ULL, 0}}));
  auto copied = copy(area.start, place, area.bytes());
  if (copied && area.protection != (PROT_READ | PROT_WRITE)) {
    if (auto set =
            process_.call(instruction_, {SYS_mprotect, {place, area.bytes(), area.protection}});
        !set) {
      copied = fail(std::move(set).error());
    }
  }
  if (!copied) {
    (void)process_.call(instruction_, {SYS_munmap, {place, area.bytes()}});
    return copied;
  }
  return move(place, area);
}

// The kernel makes room before it moves, and may find then that it has no memory for the tables.
// A process with a hole where its memory was does not go on.
Result<> Owning::move(std::uint64_t from, const Area& area) {
  constexpr std::uint64_t kThere = MREMAP_MAYMOVE | MREMAP_FIXED;
  const KernelCall call{SYS_mremap, {from, area.bytes(), area.bytes(), kThere, area.start, 0}};
  auto moved = process_.call(instruction_, call);
  if (!moved && moved.error().code != Code::kNotFound) {
    moved = process_.call(instruction_, call);
  }
  if (moved) {
    return {};
  }
  if (moved.error().code != Code::kNotFound) {
    const auto areas = read_areas(pid_);
    const bool untouched =
        areas && std::ranges::any_of(*areas, [&](const Area& now) {
          return now.start == area.start && now.end == area.end && is_of_image(now);
        });
    if (untouched) {
      (void)process_.call(instruction_, {SYS_munmap, {from, area.bytes()}});
    } else {
      process_.kill();
    }
  }
  return fail(std::move(moved).error());
}

std::uint64_t bytes_of_images(const std::vector<Area>& areas) {
  std::uint64_t bytes = 0;
  for (const Area& area : areas) {
    bytes += is_of_image(area) ? area.bytes() : 0;
  }
  return bytes;
}

// A filter of the process's own would see calls that it did not make, and may end it for them.
Result<> check_filters(pid_t pid) {
  const auto of_it = read_file(concat("/proc/", pid, "/status"), kMaxStatusFileBytes);
  const auto of_us = read_file("/proc/self/status", kMaxStatusFileBytes);
  if (!of_it || !of_us ||
      numbers_of(*of_it, "Seccomp_filters:") > numbers_of(*of_us, "Seccomp_filters:")) {
    return cannot_own("it has system call filters of its own");
  }
  return {};
}

Result<std::uint64_t> Owning::run() {
  TRY(auto areas, read_areas(pid_));
  if (bytes_of_images(areas) == 0) {
    return std::uint64_t{0};
  }
  TRY_DO(check_filters(pid_));
  TRY_DO(process_.stop(time_.stop_by_ms));
  TRY_DO(check_filters(pid_));  // as they are now and stay
  TRY(areas, read_areas(pid_));
  const std::uint64_t bytes = bytes_of_images(areas);
  if (bytes > kMaxOwnedBytes) {
    return cannot_own("it shares too much memory");
  }
  if (!has_headroom(bytes)) {
    return cannot_own("there is no memory for it");
  }
  memory_ = Fd{::open(concat("/proc/", pid_, "/mem").c_str(), O_RDWR | O_CLOEXEC)};
  if (!memory_) {
    return fail_errno("opening the memory of a process");
  }
  TRY_DO(find_instruction(areas));
  bool first = true;
  for (const Area& area : areas) {
    if (!is_of_image(area)) {
      continue;
    }
    // What it has by then is its own; it does without the rest.
    if (!std::exchange(first, false) && monotonic_ms() >= time_.own_by_ms) {
      return cannot_own("it was not done in time");
    }
    TRY_DO(own(area));
  }
  return bytes;
}

}  // namespace

OwningTime owning_time(std::int64_t own_by_ms) {
  return {.stop_by_ms = std::min(monotonic_ms() + kStoppingMs, own_by_ms), .own_by_ms = own_by_ms};
}

Result<std::uint64_t> own_memory(pid_t pid, const OwningTime& time) {
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, nullptr);  // waited for
  return Owning{pid, time}.run();
}

}  // namespace atl::guest
