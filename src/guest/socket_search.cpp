#include "guest/socket_search.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <optional>

#include "base/fd.h"
#include "base/signals.h"
#include "base/strings.h"
#include "guest/file_channel.h"
#include "guest/limits.h"
#include "guest/spawn.h"

namespace atl::guest {
namespace {

constexpr int kSocketFd = 3;
constexpr std::string_view kListening = "0A";
constexpr std::size_t kMaxAncestors = 64;
// Columns of the kernel's table, and fields of a stat file behind the name.
constexpr std::size_t kLocalColumn = 1;
constexpr std::size_t kStateColumn = 3;
constexpr std::size_t kUidColumn = 7;
constexpr std::size_t kInodeColumn = 9;
constexpr std::size_t kParentField = 1;

using Directory = std::unique_ptr<DIR, decltype(&::closedir)>;

Directory open_directory(const std::string& path) {
  return {::opendir(path.c_str()), &::closedir};
}

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> found;
  for (const std::string_view word : split(line, ' ')) {
    if (!word.empty()) {
      found.push_back(word);
    }
  }
  return found;
}

std::optional<std::uint64_t> number(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{value}
                                                                  : std::nullopt;
}

std::optional<SocketEntry> parse_line(std::string_view line, std::uint16_t port) {
  const auto columns = words(line);
  if (columns.size() <= kInodeColumn) {
    return std::nullopt;
  }
  const std::string_view local = columns[kLocalColumn];
  const auto colon = local.rfind(':');
  if (colon == std::string_view::npos || number(local.substr(colon + 1), 16) != port) {
    return std::nullopt;
  }
  const auto uid = number(columns[kUidColumn], 10);
  const auto inode = number(columns[kInodeColumn], 10);
  if (!uid || !inode || *inode == 0) {  // nobody has it any more
    return std::nullopt;
  }
  return SocketEntry{*inode, static_cast<uid_t>(*uid), columns[kStateColumn] == kListening};
}

// What a sandbox's root may not look at, its owner may: without that capability this takes the
// identity of whoever is looked at, for files alone.
class FileIdentity {
 public:
  explicit FileIdentity(const struct stat& owner) {
    ::setfsgid(owner.st_gid);
    ::setfsuid(owner.st_uid);
  }
  ~FileIdentity() {
    ::setfsuid(0);
    ::setfsgid(0);
  }
  FileIdentity(const FileIdentity&) = delete;
  FileIdentity& operator=(const FileIdentity&) = delete;
};

bool has_socket(pid_t pid, const std::vector<std::string>& links, std::size_t& scanned) {
  const std::string path = concat("/proc/", pid, "/fd");
  struct stat owner{};
  if (::stat(concat("/proc/", pid).c_str(), &owner) != 0) {
    return false;
  }
  const FileIdentity identity{owner};
  const Directory descriptors = open_directory(path);
  while (const dirent* entry = descriptors ? ::readdir(descriptors.get()) : nullptr) {
    if (++scanned > kMaxScannedDescriptors) {
      return false;
    }
    std::array<char, 64> target{};
    const ssize_t size =
        ::readlinkat(::dirfd(descriptors.get()), entry->d_name, target.data(), target.size());
    if (size > 0 &&
        std::ranges::find(links, std::string_view{target.data(), static_cast<std::size_t>(size)}) !=
            links.end()) {
      return true;
    }
  }
  return false;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  const Directory proc = open_directory("/proc");
  while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr) {
    if (const auto pid = number(entry->d_name, 10)) {
      pids.push_back(static_cast<pid_t>(*pid));
    }
  }
  return pids;
}

// "42 (any (name)) S 1 ...": the name may hold anything.
pid_t parent_of(pid_t pid) {
  const auto text = atl::read_file(concat("/proc/", pid, "/stat"));
  const auto end = text ? text->rfind(')') : std::string::npos;
  if (end == std::string::npos) {
    return 0;
  }
  const auto fields = words(std::string_view{*text}.substr(end + 1));
  return fields.size() > kParentField
             ? static_cast<pid_t>(number(fields[kParentField], 10).value_or(0))
             : 0;
}

std::string process_id_of(pid_t pid, const std::vector<Leader>& leaders) {
  const auto known = [&](pid_t candidate) -> const Leader* {
    const auto found = std::ranges::find(leaders, candidate, &Leader::pid);
    return found == leaders.end() ? nullptr : &*found;
  };
  if (const Leader* leader = known(::getsid(pid))) {
    return leader->process_id;
  }
  // It has a session of its own, but may still be below one.
  for (std::size_t i = 0; pid > 0 && i < kMaxAncestors; ++i, pid = parent_of(pid)) {
    if (const Leader* leader = known(pid)) {
      return leader->process_id;
    }
  }
  return {};
}

std::vector<SocketEntry> matching_sockets(const FindSocketRequest& request) {
  std::vector<SocketEntry> found;
  for (const char* version : {"", "6"}) {
    const auto table = atl::read_file(
        concat("/proc/net/", request.datagrams ? "udp" : "tcp", version), kMaxSocketTableBytes);
    if (table) {
      const auto more = sockets_with_port(*table, request.port);
      found.insert(found.end(), more.begin(), more.end());
    }
  }
  return found;
}

}  // namespace

std::vector<SocketEntry> sockets_with_port(std::string_view table, std::uint16_t port) {
  std::vector<SocketEntry> found;
  for (const std::string_view line : split(table, '\n')) {
    if (const auto entry = parse_line(line, port)) {
      found.push_back(*entry);
    }
  }
  std::ranges::sort(
      found, {}, [](const SocketEntry& entry) { return std::pair{entry.listening, entry.inode}; });
  return found;
}

SocketHolder find_socket_holder(const FindSocketRequest& request,
                                const std::vector<Leader>& leaders) {
  std::vector<SocketEntry> sockets = matching_sockets(request);
  if (sockets.empty()) {
    return {};
  }
  const bool listening = std::ranges::all_of(sockets, &SocketEntry::listening);
  std::vector<std::string> links;
  for (const SocketEntry& socket : sockets) {
    if (socket.listening == listening) {
      links.push_back(concat("socket:[", socket.inode, "]"));
    }
  }
  std::size_t scanned = 0;
  for (const pid_t pid : all_processes()) {
    if (has_socket(pid, links, scanned)) {
      const auto name = atl::read_file(concat("/proc/", pid, "/comm"));
      return {static_cast<std::uint32_t>(pid), name ? std::string{trim(*name)} : std::string{},
              process_id_of(pid, leaders)};
    }
  }
  return {};
}

void run_socket_search(int socket, const FindSocketRequest& request,
                       const std::vector<Leader>& leaders) {
  if (socket != kSocketFd && ::dup2(socket, kSocketFd) < 0) {
    ::_exit(1);
  }
  close_from(kSocketFd + 1);
  raise_oom_score();
  reset_signals();
  ::alarm(kSocketSearchSeconds);
  if (!set_nonblocking(kSocketFd, false)) {
    ::_exit(1);
  }
  FileChannel channel{Fd{kSocketFd}, {}};
  if (channel.send(Kind::kSocketHolder, encode(find_socket_holder(request, leaders)))) {
    (void)channel.flush();
  }
  ::_exit(0);
}

}  // namespace atl::guest
