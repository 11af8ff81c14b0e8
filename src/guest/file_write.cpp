// Writing: the whole new content is staged first, so a client that goes away in the middle leaves
// the old file as it was.
//
// Normally the stage is a temporary file beside the target that is renamed over it. Where the user
// may write the file but not its directory, or could not give the new file the old owner, the
// stage is an unlinked file in /tmp that is copied into the target when it is complete.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>

#include "base/strings.h"
#include "guest/files.h"

namespace atl::guest {
namespace {

constexpr int kMaxSymlinks = 40;

struct Target {
  Fd directory;
  std::string name;
  std::optional<struct stat> existing;
};

Result<Fd> open_parent(const std::string& parent, bool make_parents) {
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  Fd directory{::open(parent.c_str(), kFlags)};
  if (!directory && errno == ENOENT && make_parents) {
    TRY_DO(make_directories(parent));
    directory = Fd{::open(parent.c_str(), kFlags)};
  }
  if (!directory) {
    return fail_file("opening directory", parent);
  }
  return directory;
}

// Follows symlinks of the last component as open(2) would, also to a target yet to be created.
Result<Target> resolve_target(const WriteFileRequest& request) {
  std::string path = request.path;
  if (path.ends_with('/')) {
    return fail(file_error("writing", path, EISDIR));
  }
  for (int followed = 0; followed < kMaxSymlinks; ++followed) {
    const SplitPath split = split_path(path);
    if (split.name == "/" || split.name == "." || split.name == "..") {
      return fail(file_error("writing", path, EISDIR));
    }
    Target target;
    TRY(target.directory, open_parent(split.parent, request.make_parents));
    target.name = split.name;
    struct stat status{};
    if (::fstatat(target.directory.get(), split.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) {
        return target;
      }
      return fail_file("writing", path);
    }
    if (!S_ISLNK(status.st_mode)) {
      target.existing = status;
      return target;
    }
    std::string link(kMaxPathBytes, '\0');
    const ssize_t size =
        ::readlinkat(target.directory.get(), split.name.c_str(), link.data(), link.size());
    if (size <= 0) {
      return fail_file("reading symlink", path);
    }
    link.resize(static_cast<std::size_t>(size));
    path = link[0] == '/' ? link : concat(split.parent, "/", link);
  }
  return fail(file_error("writing", request.path, ELOOP));
}

Result<> check_existing(const Target& target, const std::string& path) {
  if (!target.existing) {
    return {};
  }
  if (S_ISDIR(target.existing->st_mode)) {
    return fail(file_error("writing", path, EISDIR));
  }
  if (!S_ISREG(target.existing->st_mode)) {
    return fail(Code::kFailedPrecondition, concat(path, " is not a regular file"), "path_not_file");
  }
  // Replacing needs only a writable directory; writing needs a writable file. We promise writing.
  if (::faccessat(target.directory.get(), target.name.c_str(), W_OK, 0) != 0) {
    return fail_file("writing", path);
  }
  return {};
}

Error precondition_failed(const std::string& path, std::string_view why) {
  return Error{Code::kFailedPrecondition, concat(path, why), "precondition_failed"};
}

Result<> check_conditions(const Target& target, const WriteFileRequest& request) {
  if (!request.only_new && !request.only_version) {
    return {};
  }
  struct stat status{};
  const bool exists =
      ::fstatat(target.directory.get(), target.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (request.only_new && exists) {
    return fail(precondition_failed(request.path, " exists already"));
  }
  if (request.only_version) {
    const FileInfo info = make_file_info(target.name, request.path, status);
    if (!exists ||
        FileVersion{info.inode, info.size, info.changed_unix_ns} != *request.only_version) {
      return fail(precondition_failed(request.path, " is not the expected version"));
    }
  }
  return {};
}

// Writers that depend on a version take turns for the time of their last check and the rename, so
// that only one of them finds it. A program that keeps the file locked does not stop us for ever.
Result<Fd> take_turn(const Target& target, const WriteFileRequest& request) {
  constexpr unsigned kMaxWaitSeconds = 10;
  Fd file;
  if (!request.only_version) {
    return file;
  }
  file = Fd{::openat(target.directory.get(), target.name.c_str(),
                     O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC)};
  struct sigaction interrupt{};
  interrupt.sa_handler = [](int) {};
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGALRM);
  if (!file || ::sigaction(SIGALRM, &interrupt, nullptr) != 0 ||
      ::sigprocmask(SIG_UNBLOCK, &signals, nullptr) != 0) {
    return fail_file("locking", request.path);
  }
  ::alarm(kMaxWaitSeconds);
  const int locked = ::flock(file.get(), LOCK_EX);
  ::alarm(0);
  if (locked != 0) {
    return fail(Code::kAborted, concat(request.path, " is locked by somebody else"), "path_busy");
  }
  return file;
}

class Stage {
 public:
  Stage(const Target& target, const WriteFileRequest& request)
      : target_(target), request_(request) {}
  ~Stage() {
    if (!name_.empty()) {
      ::unlinkat(target_.directory.get(), name_.c_str(), 0);
    }
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  Result<> open() {
    auto beside = make_temporary(target_.directory.get(), O_WRONLY);
    if (beside) {
      fd_ = std::move(beside->fd);
      name_ = std::move(beside->name);
      if (take_owner()) {
        return {};
      }
      ::unlinkat(target_.directory.get(), name_.c_str(), 0);
      name_.clear();
      return open_elsewhere();
    }
    const int error_number = errno;
    if (target_.existing && (error_number == EACCES || error_number == EPERM)) {
      return open_elsewhere();
    }
    return fail(file_error("writing", request_.path, error_number));
  }

  Result<> append(std::string_view bytes) {
    if (!write_all(fd_.get(), bytes)) {
      return fail_file("writing", request_.path);
    }
    return {};
  }

  Result<> commit() {
    TRY(const auto turn, take_turn(target_, request_));
    TRY_DO(check_conditions(target_, request_));
    if (name_.empty()) {
      return copy_into_target();
    }
    TRY_DO(set_attributes(fd_.get()));
    const mode_t mode = target_.existing ? target_.existing->st_mode & 07777 : request_.mode;
    const unsigned flags = request_.only_new ? RENAME_NOREPLACE : 0;
    if (::fchmod(fd_.get(), mode) != 0 ||
        ::renameat2(target_.directory.get(), name_.c_str(), target_.directory.get(),
                    target_.name.c_str(), flags) != 0) {
      if (request_.only_new && errno == EEXIST) {
        return fail(precondition_failed(request_.path, " exists already"));
      }
      return fail_file("writing", request_.path);
    }
    name_.clear();
    tell_watchers();
    return {};
  }

 private:
  Result<> set_attributes(int file) {
    for (const auto& [name, value] : request_.attributes) {
      if (::fsetxattr(file, name.c_str(), value.data(), value.size(), 0) != 0) {
        return fail_file("setting an attribute of", request_.path);
      }
    }
    return {};
  }

  // Whoever uploads so expects that those who watch see a write, and a rename is none. Asking for
  // room that the file has is one to the kernel, and leaves alone what others write to it by now.
  void tell_watchers() {
    if (request_.take_ownership && ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0, 1) != 0) {
      errno = 0;  // nobody is told; the file is there all the same
    }
  }

  bool take_owner() {
    struct stat status{};
    if (!target_.existing || request_.take_ownership || ::fstat(fd_.get(), &status) != 0) {
      return true;
    }
    const bool same =
        status.st_uid == target_.existing->st_uid && status.st_gid == target_.existing->st_gid;
    return same || ::fchown(fd_.get(), target_.existing->st_uid, target_.existing->st_gid) == 0;
  }

  Result<> open_elsewhere() {
    const Fd directory{::open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    auto temporary = directory ? make_temporary(directory.get(), O_RDWR)
                               : Result<TemporaryFile>{fail_file("opening", "/tmp")};
    if (!temporary) {
      return fail(std::move(temporary).error());
    }
    ::unlinkat(directory.get(), temporary->name.c_str(), 0);
    fd_ = std::move(temporary->fd);
    return {};
  }

  Result<> copy_into_target() {
    const Fd out{::openat(target_.directory.get(), target_.name.c_str(),
                          O_WRONLY | O_TRUNC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC)};
    if (!out || ::lseek(fd_.get(), 0, SEEK_SET) != 0) {
      return fail_file("writing", request_.path);
    }
    TRY_DO(set_attributes(out.get()));
    return copy_content(fd_.get(), out.get());
  }

  const Target& target_;
  const WriteFileRequest& request_;
  Fd fd_;
  std::string name_;  // beside the target; empty: the stage is elsewhere and already unlinked
};

}  // namespace

Result<> write_file(FileChannel& channel, const WriteFileRequest& request) {
  TRY(const auto target, resolve_target(request));
  TRY_DO(check_existing(target, request.path));
  TRY_DO(check_conditions(target, request));
  Stage stage{target, request};
  TRY_DO(stage.open());
  for (;;) {
    TRY(const auto frame, channel.receive());
    if (frame.kind == Kind::kEnd) {
      break;
    }
    if (frame.kind != Kind::kData) {
      return fail(Code::kInvalidArgument, "an upload takes only kData and kEnd", "malformed");
    }
    TRY_DO(stage.append(frame.payload));
  }
  TRY_DO(stage.commit());
  struct stat status{};
  if (::fstatat(target.directory.get(), target.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return fail_file("reading", request.path);
  }
  return channel.send(Kind::kFile,
                      encode(make_file_info(split_path(request.path).name, request.path, status)));
}

}  // namespace atl::guest
