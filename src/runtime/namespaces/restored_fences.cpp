#include "runtime/namespaces/restored_fences.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <set>

#include "base/fd.h"
#include "base/strings.h"
#include "runtime/namespaces/capability_set.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {
namespace {

namespace fs = std::filesystem;

// "CapBnd:\t00000000a80425fb"
std::string_view field_of(std::string_view status, std::string_view name) {
  for (const std::string_view line : split(status, '\n')) {
    if (line.starts_with(name) && line.substr(name.size()).starts_with(':')) {
      return trim(line.substr(name.size() + 1));
    }
  }
  return {};
}

bool has_only_kept(std::string_view digits) {
  std::uint64_t set = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), set, 16);
  return !digits.empty() && parsed.ptr == digits.data() + digits.size() &&
         (set & ~kKeptCapabilities) == 0;
}

bool is_dead(std::string_view status) {
  const std::string_view state = field_of(status, "State");
  return state.starts_with('Z') || state.starts_with('X');
}

}  // namespace

Result<std::uint64_t> pid_namespace_of(int pid) {
  struct stat place{};
  if (::stat(concat("/proc/", pid, "/ns/pid").c_str(), &place) == 0) {
    return place.st_ino;
  }
  return errno == ENOENT || errno == ESRCH ? Result<std::uint64_t>{0}
                                           : fail(errno_error("looking at a restored process"));
}

Result<> check_fences_in(std::string_view status) {
  if (is_dead(status)) {
    return {};
  }
  bool fenced = field_of(status, "Seccomp") == "2";
  for (const std::string_view set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
    fenced = fenced && has_only_kept(field_of(status, set));
  }
  return fenced ? Result<>{}
                : fail(Code::kFailedPrecondition, "a process came back without its fences",
                       std::string{kDumpRefused});
}

Result<> check_fences(int pid) {
  std::error_code error;
  for (fs::directory_iterator at{concat("/proc/", pid, "/task"), error}, end; !error && at != end;
       at.increment(error)) {
    if (const auto status = read_file(at->path().string() + "/status")) {
      TRY_DO(check_fences_in(*status));
    }
  }
  return {};
}

Result<> check_restored(std::span<const int> pids, std::size_t outside_count) {
  TRY(const std::uint64_t own, pid_namespace_of(::getpid()));
  std::size_t outside = 0;
  std::set<std::uint64_t> inside;
  for (const int pid : pids) {
    TRY(const std::uint64_t place, pid_namespace_of(pid));
    outside += place == own ? 1 : 0;
    if (place != own && place != 0) {
      inside.insert(place);
      TRY_DO(check_fences(pid));
    }
  }
  return outside == outside_count && inside.size() == 1
             ? Result<>{}
             : fail(Code::kFailedPrecondition, "a restore left processes beside the cell",
                    std::string{kDumpRefused});
}

}  // namespace atl::runtime::namespaces
