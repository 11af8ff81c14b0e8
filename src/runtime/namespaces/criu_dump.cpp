#include "runtime/namespaces/criu_dump.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/fd.h"
#include "base/strings.h"
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
constexpr int kCloseRounds = 1500;
constexpr std::chrono::milliseconds kClosePause{2};
constexpr std::size_t kMaxBootIdBytes = 64;
constexpr std::size_t kMaxReasonBytes = 200;
constexpr std::string_view kGhostLimit = "256M";  // a deleted file that is still open

// One line of /proc/PID/net/unix.
struct UnixSocket {
  bool connected = false;
  bool listening = false;
  std::uint64_t inode = 0;
};

// The sockets under the guest's name: its listener, and whatever it accepted.
Result<std::vector<UnixSocket>> guest_sockets(const DumpSpec& spec) {
  TRY(const std::string text,
      read_file(concat("/proc/", spec.record.pid, "/net/unix"), kMaxProcBytes));
  std::vector<UnixSocket> sockets;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.ends_with(concat(" ", spec.guest_socket))) {
      continue;
    }
    // Num RefCount Protocol Flags Type St Inode Path
    std::vector<std::string_view> words;
    for (const std::string_view word : split(line, ' ')) {
      if (!word.empty()) {
        words.push_back(word);
      }
    }
    if (words.size() >= 8) {
      sockets.push_back({.connected = words[5] != "01",
                         .listening = words[3] == "00010000",
                         .inode = parse_u64(words[6]).value_or(0)});
    }
  }
  return sockets;
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

// Those of the cell's trees in memory that are mounted and hold something.
Result<> save_trees(const DumpSpec& spec, const std::vector<std::string>& places) {
  for (const MemoryTree& tree : kMemoryTrees) {
    if (std::ranges::find(places, tree.directory) == places.end()) {
      continue;
    }
    struct statfs status{};
    if (::statfs(concat("/proc/", spec.record.pid, "/root", tree.directory).c_str(), &status) !=
        0) {
      return fail_errno(concat("looking at the cell's ", tree.directory));
    }
    if (status.f_files - status.f_ffree <= 1) {
      continue;  // only its root
    }
    const Fd file{::open(concat(spec.directory, "/", tree.file).c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    if (!file) {
      return fail_errno("making a file of the dump");
    }
    TRY_DO(visit_cell({.pid = spec.record.pid},
                      [&] { return save_tree(tree.directory, file.get()); }));
  }
  return {};
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
  TRY(const CriuRun run, run_criu(tools, words, lock.get()));
  if (run.exit_status == 0) {
    return {};
  }
  const std::string log = read_file(images + "/dump.log", kMaxProcBytes).value_or(run.output);
  return fail(Code::kFailedPrecondition, concat("its processes cannot be dumped: ", reason_in(log)),
              "not_dumpable");
}

}  // namespace

Result<> close_connections(const DumpSpec& spec) {
  TRY(const Fd guest, open_process(spec.record.pid, spec.record.start_time));
  if (pidfd_send_signal_call(guest.get(), SIGPWR) != 0) {
    return fail_errno("asking the guest to close its connections");
  }
  // The kernel tells nobody when a socket of somebody else is gone, so this looks again.
  for (int round = 0; round < kCloseRounds; ++round) {
    TRY(const std::vector<UnixSocket> sockets, guest_sockets(spec));
    if (std::ranges::none_of(sockets, &UnixSocket::connected)) {
      return {};
    }
    std::this_thread::sleep_for(kClosePause);
  }
  return fail(Code::kFailedPrecondition, "its agent did not close its connections in time",
              "not_dumpable");
}

Result<std::uint64_t> dump_cell(const CriuTools& tools, const DumpSpec& spec,
                                const std::string& freezer) {
  DumpFacts facts;
  TRY(const std::vector<UnixSocket> sockets, guest_sockets(spec));
  const auto listener = std::ranges::find_if(sockets, &UnixSocket::listening);
  if (listener == sockets.end()) {
    return fail(Code::kFailedPrecondition, "it was started by an older version", "not_dumpable");
  }
  if (std::ranges::any_of(sockets, &UnixSocket::connected)) {
    return fail(Code::kFailedPrecondition, "somebody uses it at this moment", "not_dumpable");
  }
  facts.listener_inode = listener->inode;
  TRY(facts.boot_id, read_boot_id());
  TRY(facts.offsets, read_time_offsets(spec.record.pid));
  facts.host = read_host_clocks();
  TRY(const std::vector<std::string> places, mount_places(spec.record.pid));
  TRY_DO(save_trees(spec, places));
  TRY_DO(run_dump(tools, spec, freezer, places));
  TRY(const std::uint64_t bytes, prepare_images(dumped_images(spec.directory)));
  // The very program that ran, which after an upgrade is not the one of today.
  TRY_DO(copy_program(concat("/proc/", spec.record.pid, "/exe"), dumped_guest(spec.directory)));
  const auto cell_boot_id =
      read_file(concat("/proc/", spec.record.pid, "/root/sys/kernel/boot_id"), kMaxBootIdBytes);
  if (cell_boot_id) {
    TRY_DO(replace_file(dumped_boot_id(spec.directory), *cell_boot_id, {}));
  }
  TRY_DO(write_dump_facts(spec.directory, facts));
  return bytes;
}

}  // namespace atl::runtime::namespaces
