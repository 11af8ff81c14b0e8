// Watching files: inotify in a worker that lives as long as its client.
//
// inotify watches inodes, the client thinks in paths. A table maps each watch to the path it has
// now: a directory that is moved away takes its watches with it (they are dropped), one that
// appears is watched and then read, so that what was put into it before the watch stood is still
// reported. What is found that way may come a second time from the queue; such names are noted
// until the queue has been empty once. When the kernel's queue overflows everything is watched
// anew before the client is told, so after an overflow event one look at the files is enough.
//
// A file is watched through its directory, so that replacing it by a rename is seen.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/strings.h"
#include "guest/files.h"
#include "guest/limits.h"
#include "guest/tree_visit.h"

namespace atl::guest {
namespace {

// IN_EXCL_UNLINK: a removed file that somebody still has open does not report by its old name.
constexpr std::uint32_t kMask = IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
                                IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_EXCL_UNLINK;
constexpr std::size_t kMaxBatchEvents = 4096;
constexpr std::size_t kMaxAnnounced = 65536;  // beyond it a create may be told twice

bool is_below(std::string_view path, std::string_view directory) {
  return path.starts_with(directory) &&
         (path.size() == directory.size() || directory == "/" || path[directory.size()] == '/');
}

class FileWatch {
 public:
  FileWatch(FileChannel& channel, const WatchRequest& request)
      : channel_(channel), root_(clean_path(request.path)), recursive_(request.recursive) {}

  Result<> run() {
    TRY_DO(start());
    TRY_DO(channel_.send(Kind::kWatching));
    TRY_DO(channel_.flush());
    for (;;) {
      TRY(const bool connected, wait());
      if (!connected) {
        return {};
      }
      TRY_DO(read_events());
      TRY_DO(send_batch());
    }
  }

 private:
  enum class Report : bool { kNo, kYes };

  Result<> start() {
    inotify_ = Fd{::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
    if (!inotify_) {
      return fail(Code::kResourceExhausted,
                  concat("cannot watch ", root_, ": the limit of file watches is reached"),
                  "too_many_watches");
    }
    paths_.clear();
    announced_.clear();
    watches_file_ = false;
    file_name_.clear();
    const std::unique_ptr<char, void (*)(void*)> real{::realpath(root_.c_str(), nullptr), ::free};
    struct stat status{};
    if (!real || ::stat(real.get(), &status) != 0) {
      return fail_file("watching", root_);
    }
    if (!S_ISDIR(status.st_mode)) {
      return start_file(real.get());
    }
    TRY(const int id, add(root_, 0));
    if (id < 0) {
      return fail_file("watching", root_);
    }
    root_id_ = id;
    return recursive_ ? cover(root_, Report::kNo) : Result<>{};
  }

  Result<> start_file(const std::string& real) {
    const SplitPath split = split_path(real);
    file_name_ = split.name;
    root_id_ = ::inotify_add_watch(inotify_.get(), split.parent.c_str(), kMask | IN_ONLYDIR);
    if (root_id_ < 0 && errno == EACCES) {
      file_name_.clear();  // the directory may not be read: the file alone, then
      root_id_ = ::inotify_add_watch(inotify_.get(), real.c_str(), kMask);
    }
    if (root_id_ < 0) {
      return fail_file("watching", root_);
    }
    watches_file_ = true;
    paths_[root_id_] = root_;
    return {};
  }

  // -1: there is nothing to watch there (gone, or not readable for this user), see errno.
  Result<int> add(const std::string& path, std::uint32_t flags) {
    if (paths_.size() >= kMaxWatches) {
      return too_many();
    }
    const int id = ::inotify_add_watch(inotify_.get(), path.c_str(), kMask | IN_ONLYDIR | flags);
    if (id >= 0) {
      paths_[id] = path;
    } else if (errno == ENOSPC || errno == ENOMEM) {
      return too_many();
    } else if (errno == ENAMETOOLONG) {
      note(FileEventType::kOverflow, path.substr(0, kMaxPathBytes));  // cannot be watched at all
    }
    return id;
  }

  std::unexpected<Error> too_many() {
    return fail(Code::kResourceExhausted,
                concat("cannot watch ", root_, ": it has more directories than can be watched (",
                       kMaxWatches, " at most)"),
                "too_many_watches");
  }

  // Watches everything below a directory that is already watched.
  Result<> cover(const std::string& top, Report report) {
    std::vector<std::string> open{top};
    while (!open.empty()) {
      const std::string path = std::move(open.back());
      open.pop_back();
      const Fd fd{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC |
                                           (path == root_ ? 0 : O_NOFOLLOW))};
      const std::unique_ptr<DIR, int (*)(DIR*)> directory{
          fd ? ::fdopendir(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)) : nullptr, ::closedir};
      if (!directory || (path != root_ && is_kernel_filesystem(fd.get()))) {
        continue;  // gone, or not this user's to read, or without an end
      }
      while (const dirent* entry = ::readdir(directory.get())) {
        const std::string name = entry->d_name;
        if (name == "." || name == "..") {
          continue;
        }
        std::string child = concat(path == "/" ? "" : path, "/", name);
        if (report == Report::kYes) {
          TRY_DO(announce(child));
        }
        if (!is_directory(fd.get(), *entry)) {
          continue;
        }
        TRY(const int id, add(child, IN_DONT_FOLLOW));
        if (id >= 0) {
          open.push_back(std::move(child));
        }
      }
    }
    return {};
  }

  Result<> announce(const std::string& path) {
    if (announced_.size() < kMaxAnnounced && !announced_.insert(path).second) {
      return {};
    }
    note(FileEventType::kCreate, path);
    return batch_.size() < kMaxBatchEvents ? Result<>{} : send_batch();
  }

  static bool is_directory(int parent, const dirent& entry) {
    if (entry.d_type != DT_UNKNOWN) {
      return entry.d_type == DT_DIR;
    }
    struct stat status{};
    return ::fstatat(parent, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(status.st_mode);
  }

  // A directory appeared, or may be readable now.
  Result<> adopt(const std::string& path) {
    TRY(const int id, add(path, IN_DONT_FOLLOW));
    return id >= 0 ? cover(path, Report::kYes) : Result<>{};
  }

  void drop_below(const std::string& path) {
    std::erase_if(paths_, [&](const auto& entry) {
      const bool gone = entry.first != root_id_ && is_below(entry.second, path);
      if (gone) {
        ::inotify_rm_watch(inotify_.get(), entry.first);
      }
      return gone;
    });
  }

  bool is_watched(const std::string& path) const {
    for (const auto& [id, watched] : paths_) {
      if (watched == path) {
        return true;
      }
    }
    return false;
  }

  Result<bool> wait() {
    std::array<pollfd, 2> entries{pollfd{.fd = inotify_.get(), .events = POLLIN, .revents = 0},
                                  pollfd{.fd = channel_.socket(), .events = 0, .revents = 0}};
    while (::poll(entries.data(), entries.size(), -1) < 0) {
      if (errno != EINTR) {
        return fail_errno("waiting for changes");
      }
    }
    return entries[1].revents == 0;
  }

  Result<> read_events() {
    alignas(inotify_event) std::array<char, 64 * 1024> buffer;
    const ssize_t got = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (got < 0) {
      return errno == EAGAIN || errno == EINTR ? Result<>{} : fail_errno("reading changes");
    }
    for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      at += sizeof(inotify_event) + event->len;
      if ((event->mask & IN_Q_OVERFLOW) != 0) {
        return start_again();
      }
      TRY_DO(on_event(*event, event->len > 0 ? event->name : ""));
    }
    int left_bytes = 0;
    if (::ioctl(inotify_.get(), FIONREAD, &left_bytes) == 0 && left_bytes == 0) {
      announced_.clear();
    }
    return {};
  }

  Result<> start_again() {
    TRY_DO(start());
    note(FileEventType::kOverflow, root_);
    return {};
  }

  Result<> on_event(const inotify_event& event, const std::string& name) {
    const auto watch = paths_.find(event.wd);
    if (watch == paths_.end()) {
      return {};  // of a watch that was dropped
    }
    if ((event.mask & IN_IGNORED) != 0) {
      paths_.erase(watch);
      return {};
    }
    if (name.empty()) {
      on_self_event(event);
      return {};
    }
    if (watches_file_ && name != file_name_) {
      return {};
    }
    const std::string path =
        watches_file_ ? root_ : concat(watch->second == "/" ? "" : watch->second, "/", name);
    return on_child_event(event.mask, path);
  }

  // About a watched directory itself: below the root its parent tells the same.
  void on_self_event(const inotify_event& event) {
    if (event.wd != root_id_ || (watches_file_ && !file_name_.empty())) {
      return;
    }
    if ((event.mask & IN_MODIFY) != 0) {
      note(FileEventType::kWrite, root_);
    } else if ((event.mask & IN_ATTRIB) != 0) {
      note(FileEventType::kChmod, root_);
    } else if ((event.mask & (IN_DELETE_SELF | IN_UNMOUNT)) != 0) {
      note(FileEventType::kRemove, root_);
    } else if ((event.mask & IN_MOVE_SELF) != 0) {
      note(FileEventType::kRename, root_);
    }
  }

  Result<> on_child_event(std::uint32_t mask, const std::string& path) {
    const bool directory = (mask & IN_ISDIR) != 0 && recursive_ && !watches_file_;
    if ((mask & (IN_CREATE | IN_MOVED_TO)) != 0) {
      if (announced_.erase(path) > 0) {
        return {};  // found before its event came, and watched since
      }
      note(FileEventType::kCreate, path);
      return directory ? adopt(path) : Result<>{};
    }
    if ((mask & IN_MODIFY) != 0) {
      note(FileEventType::kWrite, path);
    } else if ((mask & IN_ATTRIB) != 0) {
      note(FileEventType::kChmod, path);
      return directory && !is_watched(path) ? adopt(path) : Result<>{};
    } else if ((mask & IN_DELETE) != 0) {
      announced_.erase(path);
      note(FileEventType::kRemove, path);
    } else if ((mask & IN_MOVED_FROM) != 0) {
      announced_.erase(path);
      note(FileEventType::kRename, path);
      if (directory) {
        drop_below(path);
      }
    }
    return {};
  }

  void note(FileEventType type, const std::string& path) {
    const auto [last, fresh] = last_.try_emplace(path, type);
    if (!fresh && last->second == type && type == FileEventType::kWrite) {
      return;
    }
    last->second = type;
    batch_.push_back({type, path});
  }

  Result<> send_batch() {
    for (const FileEvent& event : batch_) {
      TRY_DO(channel_.send(Kind::kFileEvent, encode(event)));
    }
    batch_.clear();
    last_.clear();
    return channel_.flush();
  }

  FileChannel& channel_;
  const std::string root_;
  const bool recursive_;
  bool watches_file_ = false;
  std::string file_name_;  // in its directory; empty: the file itself is watched
  Fd inotify_;
  int root_id_ = -1;
  std::map<int, std::string> paths_;  // of each watch
  std::set<std::string> announced_;
  std::vector<FileEvent> batch_;
  std::map<std::string, FileEventType> last_;  // of each path in the batch
};

}  // namespace

Result<> watch_files(FileChannel& channel, const WatchRequest& request) {
  FileWatch watch{channel, request};
  return watch.run();
}

}  // namespace atl::guest
