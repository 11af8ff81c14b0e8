// Changing the tree: mkdir, move, remove, chmod.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/strings.h"
#include "guest/files.h"

namespace atl::guest {
namespace {

Result<> done(FileChannel& channel) {
  return channel.send(Kind::kDone);
}

// "/", also as "//", "/.", "/usr/.." and so on.
bool is_root(const std::string& path) {
  struct stat status{};
  struct stat root{};
  return ::lstat(path.c_str(), &status) == 0 && ::lstat("/", &root) == 0 &&
         status.st_dev == root.st_dev && status.st_ino == root.st_ino;
}

bool is_dots(const std::string& name) {
  return name == "." || name == "..";
}

Result<Fd> open_directory(const std::string& path) {
  Fd directory{::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  if (!directory) {
    return fail_file("opening directory", path);
  }
  return directory;
}

// rename(2) cannot cross filesystems, nor move a directory of a lower overlay layer: copy beside
// the destination under a temporary name, rename that, remove the source.
Result<> move_by_copy(const std::string& source, const std::string& destination) {
  const SplitPath from = split_path(source);
  const SplitPath to = split_path(destination);
  TRY(const auto from_directory, open_directory(from.parent));
  TRY(const auto to_directory, open_directory(to.parent));
  TRY(auto reserved, make_temporary(to_directory.get(), O_WRONLY));
  const std::string staged = reserved.name + "d";
  ::unlinkat(to_directory.get(), reserved.name.c_str(), 0);
  auto copied = copy_tree(from_directory.get(), from.name, to_directory.get(), staged, source);
  if (copied &&
      ::renameat(to_directory.get(), staged.c_str(), to_directory.get(), to.name.c_str()) != 0) {
    copied = fail_file("moving to", destination);
  }
  if (!copied) {
    (void)remove_tree(to_directory.get(), staged, destination);
    return copied;
  }
  return remove_tree(from_directory.get(), from.name, source);
}

bool is_inside(const std::string& path, const std::string& directory) {
  return path.size() > directory.size() && path.starts_with(directory) &&
         path[directory.size()] == '/';
}

}  // namespace

Result<> make_directory(FileChannel& channel, const MakeDirectoryRequest& request) {
  const std::string path = clean_path(request.path);
  if (request.make_parents) {
    struct stat status{};
    if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
      return done(channel);
    }
    TRY_DO(make_directories(split_path(path).parent));
  }
  if (::mkdir(path.c_str(), request.mode) != 0) {
    if (errno == ENOENT) {
      return fail(Code::kNotFound,
                  concat("creating ", path, ": its parent directory does not exist"),
                  "file_not_found");
    }
    return fail_file("creating directory", path);
  }
  // mkdir(2) ignores the set-id and sticky bits on some filesystems.
  if ((request.mode & 07000) != 0 && ::chmod(path.c_str(), request.mode) != 0) {
    return fail_file("changing the mode of", path);
  }
  return done(channel);
}

Result<> move_path(FileChannel& channel, const MoveRequest& request) {
  const std::string source = clean_path(request.source);
  const std::string destination = clean_path(request.destination);
  struct stat status{};
  if (::lstat(source.c_str(), &status) != 0) {
    return fail_file("moving", source);
  }
  if (is_root(source) || is_inside(destination, source)) {
    return fail(Code::kInvalidArgument,
                concat("cannot move ", source, " into itself (", destination, ")"), "bad_path");
  }
  if (request.make_parents) {
    TRY_DO(make_directories(split_path(destination).parent));
  }
  if (::rename(source.c_str(), destination.c_str()) != 0) {
    if (errno != EXDEV) {
      return fail(file_error(concat("moving ", source, " to"), destination, errno));
    }
    TRY_DO(move_by_copy(source, destination));
  }
  return done(channel);
}

Result<> remove_path(FileChannel& channel, const RemoveRequest& request) {
  const std::string path = clean_path(request.path);
  const SplitPath split = split_path(path);
  if (is_root(path) || is_dots(split.name)) {
    return fail(Code::kInvalidArgument, concat("refusing to remove ", path), "bad_path");
  }
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    if (request.missing_ok && (errno == ENOENT || errno == ENOTDIR)) {
      return done(channel);
    }
    return fail_file("removing", path);
  }
  if (!request.recursive) {
    if (::unlinkat(AT_FDCWD, path.c_str(), S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0) != 0) {
      return fail_file("removing", path);
    }
    return done(channel);
  }
  TRY(const auto parent, open_directory(split.parent));
  TRY_DO(remove_tree(parent.get(), split.name, path));
  return done(channel);
}

Result<> change_mode(FileChannel& channel, const ChangeModeRequest& request) {
  const std::string path = clean_path(request.path);
  const bool owned = request.uid != UINT32_MAX || request.gid != UINT32_MAX;
  // Before the mode: the kernel takes set-id bits away with the owner.
  if (owned && ::chown(path.c_str(), request.uid, request.gid) != 0) {
    return fail_file("changing the owner of", path);
  }
  if (request.mode != UINT32_MAX && ::chmod(path.c_str(), request.mode) != 0) {
    return fail_file("changing the mode of", path);
  }
  return done(channel);
}

}  // namespace atl::guest
