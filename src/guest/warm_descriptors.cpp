// What a process has open, as what can be opened again.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/strings.h"
#include "guest/warm_capture.h"

namespace atl::guest {
namespace {

constexpr std::string_view kDeleted = " (deleted)";
constexpr std::array<std::string_view, 5> kDevices{"/dev/null", "/dev/zero", "/dev/full",
                                                   "/dev/random", "/dev/urandom"};
constexpr std::uint32_t kKeptFlags = O_ACCMODE | O_APPEND | O_NONBLOCK | O_DIRECTORY | O_PATH |
                                     O_CLOEXEC | O_SYNC | O_DSYNC | O_NOATIME;

Result<std::vector<std::uint32_t>> list_numbers(pid_t pid) {
  const std::string path = concat("/proc/", pid, "/fd");
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) {
    return fail_errno(concat("listing ", path));
  }
  std::vector<std::uint32_t> numbers;
  while (const dirent* entry = ::readdir(directory)) {
    if (const auto number = parse_u64(entry->d_name)) {
      numbers.push_back(static_cast<std::uint32_t>(*number));
    }
  }
  ::closedir(directory);
  std::ranges::sort(numbers);
  if (numbers.size() > kMaxDescriptors ||
      (!numbers.empty() && numbers.back() > kMaxDescriptorNumber)) {
    return cannot_capture(concat("it has ", numbers.size(), " open files, or very high numbers"),
                          "too_many_descriptors");
  }
  return numbers;
}

// One value of /proc/pid/fdinfo/n, which has a base of its own.
std::optional<std::uint64_t> find_field(std::string_view info, std::string_view key, int base) {
  for (const auto line : split(info, '\n')) {
    if (line.starts_with(key) && line.substr(key.size()).starts_with(':')) {
      return std::strtoull(std::string{trim(line.substr(key.size() + 1))}.c_str(), nullptr, base);
    }
  }
  return std::nullopt;
}

std::unexpected<Error> cannot_open(std::uint32_t number, std::string_view target) {
  const std::string what{target.substr(0, 200)};
  if (target.starts_with("socket:")) {
    return cannot_capture(concat("descriptor ", number, " is a socket"), "open_socket");
  }
  if (target.starts_with("pipe:")) {
    return cannot_capture(concat("descriptor ", number, " is a pipe to another process"),
                          "open_pipe");
  }
  if (target.starts_with("/memfd:") || target.ends_with(kDeleted)) {
    return cannot_capture(concat("descriptor ", number, " is a file without a name: ", what),
                          "deleted_file");
  }
  return cannot_capture(concat("descriptor ", number, " cannot be opened again: ", what),
                        "open_descriptor");
}

class Scan {
 public:
  explicit Scan(const CaptureSource& source) : source_(source) {}

  Result<std::vector<Descriptor>> run() {
    TRY(const auto numbers, list_numbers(source_.pid));
    for (const std::uint32_t number : numbers) {
      TRY(auto descriptor, describe(number));
      found_.push_back(std::move(descriptor));
    }
    return std::move(found_);
  }

 private:
  Result<Descriptor> describe(std::uint32_t number);
  Result<> describe_path(Descriptor& descriptor, const std::string& link,
                         const std::string& target) const;
  bool is_same(std::uint32_t one, std::uint32_t other) const {
    return ::syscall(SYS_kcmp, source_.pid, source_.pid, 0 /* KCMP_FILE */, one, other) == 0;
  }

  const CaptureSource& source_;
  std::vector<Descriptor> found_;
};

Result<Descriptor> Scan::describe(std::uint32_t number) {
  const std::string link = concat("/proc/", source_.pid, "/fd/", number);
  std::string target(4200, '\0');
  const ssize_t got = ::readlink(link.c_str(), target.data(), target.size());
  if (got < 0) {
    return fail_errno(concat("reading ", link));
  }
  target.resize(static_cast<std::size_t>(got));
  TRY(const auto info, read_file(concat("/proc/", source_.pid, "/fdinfo/", number)));
  Descriptor descriptor{.number = number};
  descriptor.flags = static_cast<std::uint32_t>(find_field(info, "flags", 8).value_or(0));
  if (number == source_.channel) {
    if (!target.starts_with("socket:")) {
      return cannot_capture("its channel is not open", "channel_closed");
    }
    descriptor.kind = DescriptorKind::kChannel;
    return descriptor;
  }
  const auto is_pipe = [&](std::uint64_t inode) {
    return inode != 0 && target == concat("pipe:[", inode, "]") &&
           (descriptor.flags & O_ACCMODE) == O_WRONLY;
  };
  if (is_pipe(source_.output_inode) || is_pipe(source_.error_inode)) {
    descriptor.kind =
        is_pipe(source_.output_inode) ? DescriptorKind::kOutput : DescriptorKind::kErrorOutput;
    return descriptor;
  }
  if (target == "anon_inode:[eventfd]") {
    descriptor.kind = DescriptorKind::kEvent;
    descriptor.value = find_field(info, "eventfd-count", 16).value_or(0);
    if (find_field(info, "eventfd-semaphore", 10).value_or(0) != 0 ||
        descriptor.value > UINT32_MAX) {
      return cannot_open(number, target);
    }
    return descriptor;
  }
  descriptor.value = find_field(info, "pos", 10).value_or(0);
  TRY_DO(describe_path(descriptor, link, target));
  return descriptor;
}

Result<> Scan::describe_path(Descriptor& descriptor, const std::string& link,
                             const std::string& target) const {
  if (!target.starts_with('/') || target.size() > 4096) {
    return cannot_open(descriptor.number, target);
  }
  struct stat opened{};
  struct stat named{};
  if (::stat(link.c_str(), &opened) != 0 || ::stat(target.c_str(), &named) != 0 ||
      opened.st_ino != named.st_ino || opened.st_dev != named.st_dev) {
    const bool said = target.ends_with(kDeleted);
    return cannot_open(descriptor.number, said ? target : concat(target, kDeleted));
  }
  const bool device = std::ranges::find(kDevices, target) != kDevices.end();
  const bool plain = S_ISREG(opened.st_mode) || S_ISDIR(opened.st_mode);
  if ((!device && !plain) || target.starts_with("/proc/") || target.starts_with("/sys/")) {
    return cannot_open(descriptor.number, target);
  }
  for (const Descriptor& earlier : found_) {
    if (earlier.kind == DescriptorKind::kPath && earlier.path == target &&
        is_same(earlier.number, descriptor.number)) {
      descriptor.kind = DescriptorKind::kSame;
      descriptor.value = earlier.number;
      return {};
    }
  }
  descriptor.flags &= kKeptFlags;
  descriptor.path = target;
  return {};
}

}  // namespace

Result<std::vector<Descriptor>> capture_descriptors(const CaptureSource& source) {
  return Scan{source}.run();
}

}  // namespace atl::guest
