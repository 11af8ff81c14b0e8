#include "runtime/namespaces/criu_dump.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/fd.h"
#include "base/strings.h"
#include "runtime/namespaces/cell_plan.h"
#include "runtime/namespaces/cell_visit.h"
#include "runtime/namespaces/dump_files.h"
#include "runtime/namespaces/dump_images.h"
#include "runtime/namespaces/guest_image.h"
#include "runtime/namespaces/kernel_calls.h"
#include "runtime/namespaces/process.h"
#include "runtime/namespaces/shared_memory.h"

namespace atl::runtime::namespaces {
namespace {

constexpr std::size_t kMaxProcBytes = 16U << 20;
// How long the guest may prepare itself: a part of what the dump may take, which grows with the
// memory. More than it takes by itself (guest/limits.h), unless the node stops and has no time.
constexpr int kPreparingPart = 6;
constexpr std::chrono::seconds kLeastPreparing{3};
constexpr std::chrono::seconds kMostPreparing{30};
constexpr std::chrono::milliseconds kPreparingPause{2};
constexpr std::size_t kMaxBootIdBytes = 64;
constexpr std::size_t kMaxReasonBytes = 200;
constexpr std::string_view kGhostLimit = "256M";  // a deleted file that is still open

// The guest's listener is its descriptor 3, whatever else has its name.
Result<std::uint64_t> listener_inode(int pid) {
  constexpr std::string_view kPrefix = "socket:[";
  char target[64];
  const ssize_t size =
      ::readlink(concat("/proc/", pid, "/fd/", kGuestListenFd).c_str(), target, sizeof target);
  const std::string_view text{target, size > 0 ? static_cast<std::size_t>(size) : 0};
  if (text.starts_with(kPrefix) && text.ends_with(']')) {
    const auto inode = parse_u64(text.substr(kPrefix.size(), text.size() - kPrefix.size() - 1));
    if (inode) {
      return *inode;
    }
  }
  return fail(Code::kFailedPrecondition, "its agent does not listen", "not_dumpable");
}

// "Num: RefCount Protocol Flags Type St Inode Path": the path is all that follows the inode.
std::string_view path_of_socket(std::string_view line) {
  for (int field = 0; field < 7; ++field) {
    const auto begin = line.find_first_not_of(' ');
    const auto end = begin == std::string_view::npos ? begin : line.find(' ', begin);
    if (end == std::string_view::npos) {
      return {};
    }
    line.remove_prefix(end);
  }
  return line.substr(1);
}

// What a guest accepts belongs to the network of who connected, and has the listener's name there.
// So it is looked for among the host's own sockets, where no sandbox can put anything.
Result<bool> is_connected(const DumpSpec& spec) {
  TRY(const std::string text, read_file("/proc/self/net/unix", kMaxProcBytes));
  TRY(const std::uint64_t listener, listener_inode(spec.record.pid));
  const std::string own = concat(" ", listener, " ");
  return std::ranges::any_of(split(text, '\n'), [&](std::string_view line) {
    return path_of_socket(line) == spec.guest_socket && !line.contains(own);
  });
}

// mountinfo writes spaces and the like as three octal digits.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '3') {
      plain.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                        (text[i + 3] - '0')));
      i += 3;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

// Where something is mounted in the cell, beside its root.
Result<std::vector<std::string>> mount_places(int pid) {
  TRY(const std::string text, read_file(concat("/proc/", pid, "/mountinfo"), kMaxProcBytes));
  std::vector<std::string> places;
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = split(line, ' ');
    if (fields.size() > 4 && fields[4] != "/") {
      places.push_back(unescape(fields[4]));
    }
  }
  return places;
}

// Those of the cell's trees in memory that are mounted and have entries: each file here is a visit
// to the cell when it is restored.
Result<> save_trees(const DumpSpec& spec, const std::vector<std::string>& places) {
  for (const MemoryTree& tree : kMemoryTrees) {
    if (std::ranges::find(places, tree.directory) == places.end()) {
      continue;
    }
    const std::string path = concat(spec.directory, "/", tree.file);
    const Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    if (!file) {
      return fail_errno("making a file of the dump");
    }
    TRY(const Fd guest, open_process(spec.record.pid, spec.record.start_time));
    TRY_DO(visit_cell({.pidfd = guest.get(), .kept_fd = file.get(), .time_limit = spec.time_limit},
                      [&] { return save_memory_tree(tree.directory, file.get()); }));
    struct stat status{};
    if (::fstat(file.get(), &status) != 0 || (status.st_size == 0 && ::unlink(path.c_str()) != 0)) {
      return fail_errno("looking at a file of the dump");
    }
  }
  return {};
}

// A path of the cell's tree: no link is followed, and only a plain file is read. Empty if none.
std::string read_cell_boot_id(int pid) {
  const Fd root{::open(concat("/proc/", pid, "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  open_how how{};
  how.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const Fd file{root ? openat2_call(root.get(), "sys/kernel/boot_id", &how) : -1};
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return {};
  }
  std::string text(kMaxBootIdBytes, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

// "(00.052) Error (criu/tty.c:123): message": the first is the cause, the others follow from it.
std::string reason_in(const std::string& log) {
  for (const std::string_view line : split(log, '\n')) {
    const auto begin = line.find("Error (");
    const auto colon = begin == std::string_view::npos ? begin : line.find("): ", begin);
    if (colon == std::string_view::npos || line.contains("RLIMIT_NOFILE")) {
      continue;
    }
    if (line.contains("fsnotify")) {
      return "a process watches files (inotify)";
    }
    std::string reason;
    for (const char c : line.substr(colon + 3, kMaxReasonBytes)) {
      reason.push_back(c >= ' ' && c <= '~' ? c : ' ');
    }
    return reason;
  }
  return "criu gave no reason";
}

Result<> run_dump(const CriuTools& tools, const DumpSpec& spec, const std::string& freezer,
                  const std::vector<std::string>& places) {
  const std::string images = dumped_images(spec.directory);
  if (::mkdir(images.c_str(), 0700) != 0) {
    return fail_errno(concat("making ", images));
  }
  const Fd lock{::open(spec.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail_errno("locking the dump");
  }
  std::vector<std::string> words = {"dump",
                                    "--tree",
                                    concat(spec.record.pid),
                                    "--images-dir",
                                    images,
                                    "--log-file",
                                    "dump.log",
                                    "-v1",
                                    "--no-default-config",
                                    "--leave-running",
                                    "--freeze-cgroup",
                                    freezer,
                                    "--manage-cgroups=ignore",
                                    "--ext-unix-sk",
                                    "--shell-job",
                                    "--file-locks",
                                    "--tcp-established",
                                    "--network-lock",
                                    "skip",
                                    "--empty-ns",
                                    "net",
                                    "--ghost-limit",
                                    std::string{kGhostLimit},
                                    "--link-remap"};
  for (const std::string& place : places) {  // made by the runtime, not by criu
    words.insert(words.end(), {"--external", concat("mnt[", place, "]:", place)});
  }
  TRY(const CriuRun run, run_criu(tools, words, {lock.get(), spec.time_limit}));
  if (run.exit_status == 0) {
    return {};
  }
  if (run.exit_status < 0) {
    return fail(Code::kDeadlineExceeded,
                run.in_time ? "criu was killed" : "its memory could not be written in time",
                std::string{kDumpCutShort});
  }
  const std::string log = read_file(images + "/dump.log", kMaxProcBytes).value_or(run.output);
  return fail(Code::kFailedPrecondition, concat("its processes cannot be dumped: ", reason_in(log)),
              "not_dumpable");
}

// How often the guest was ready for a dump is the end of its name: ".7", or "+7" while it prepares
// itself (guest/agent_dump.cpp). Guests of earlier versions have none, and nothing to prepare.
std::string preparations(int pid) {
  const auto name = read_file(concat("/proc/", pid, "/comm"), kMaxProcBytes);
  const auto end = name ? name->find_first_of(".+") : std::string::npos;
  return end == std::string::npos ? "" : name->substr(end);
}

// The kernel tells nobody what becomes of the sockets and the name of somebody else, so this looks
// again and again.
Result<> wait_until(std::chrono::steady_clock::time_point deadline, auto&& is_so) {
  for (;;) {
    TRY(const bool so, is_so());
    if (so) {
      return {};
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return fail(Code::kFailedPrecondition, "its agent was not ready in time", "not_dumpable");
    }
    std::this_thread::sleep_for(kPreparingPause);
  }
}

}  // namespace

Result<> close_connections(const DumpSpec& spec) {
  TRY(const Fd guest, open_process(spec.record.pid, spec.record.start_time));
  const int pid = spec.record.pid;
  const auto deadline =
      std::chrono::steady_clock::now() +
      std::clamp(spec.time_limit / kPreparingPart, kLeastPreparing, kMostPreparing);
  // The end of what an earlier attempt asked for says nothing about this one.
  std::string before;
  TRY_DO(wait_until(deadline, [&]() -> Result<bool> {
    before = preparations(pid);
    return !before.starts_with('+');
  }));
  if (pidfd_send_signal_call(guest.get(), SIGPWR) != 0) {
    return fail_errno("asking the guest to close its connections");
  }
  return wait_until(deadline, [&]() -> Result<bool> {
    TRY(const bool connected, is_connected(spec));
    const std::string now = preparations(pid);
    return !connected && (before.empty() || (now != before && !now.starts_with('+')));
  });
}

Result<std::uint64_t> dump_cell(const CriuTools& tools, const DumpSpec& spec,
                                const std::string& freezer) {
  DumpFacts facts;
  TRY(facts.listener_inode, listener_inode(spec.record.pid));
  TRY(const bool connected, is_connected(spec));
  if (connected) {
    return fail(Code::kFailedPrecondition, "somebody uses it at this moment", "not_dumpable");
  }
  TRY(facts.boot_id, read_boot_id());
  TRY(facts.offsets, read_time_offsets(spec.record.pid));
  facts.host = read_host_clocks();
  TRY(const std::vector<std::string> places, mount_places(spec.record.pid));
  TRY_DO(save_trees(spec, places));
  TRY_DO(run_dump(tools, spec, freezer, places));
  TRY(const std::uint64_t bytes, prepare_images(dumped_images(spec.directory)));
  // The very program that ran, which after an upgrade is not the one of today.
  TRY_DO(copy_program(concat("/proc/", spec.record.pid, "/exe"), dumped_guest(spec.directory)));
  if (const std::string boot_id = read_cell_boot_id(spec.record.pid); !boot_id.empty()) {
    TRY_DO(replace_file(dumped_boot_id(spec.directory), boot_id, {}));
  }
  TRY_DO(write_dump_facts(spec.directory, facts));
  return bytes;
}

}  // namespace atl::runtime::namespaces
