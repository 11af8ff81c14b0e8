#include "runtime/namespaces/restored_fences.h"

#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <filesystem>

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

Result<Place> find_place(int pid) {
  struct stat own{};
  struct stat theirs{};
  if (::stat("/proc/self/ns/pid", &own) != 0) {
    return fail_errno("looking at the node's pid namespace");
  }
  if (::stat(concat("/proc/", pid, "/ns/pid").c_str(), &theirs) != 0) {
    return errno == ENOENT || errno == ESRCH ? Result<Place>{Place::kGone}
                                             : fail(errno_error("looking at a restored process"));
  }
  return own.st_ino == theirs.st_ino ? Place::kOutside : Place::kInside;
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

}  // namespace atl::runtime::namespaces
