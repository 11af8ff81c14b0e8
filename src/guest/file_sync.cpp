// Making what was changed durable: the file itself, then every directory that leads to it.
//
// A tree is synced with its whole file system, because nobody remembers what was written in it.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/strings.h"
#include "guest/files.h"

namespace atl::guest {
namespace {

// Without links; of what is gone, where it was.
Result<std::string> find_place(std::string path) {
  for (;;) {
    const std::unique_ptr<char, decltype(&::free)> found{::realpath(path.c_str(), nullptr),
                                                         &::free};
    if (found) {
      return std::string{found.get()};
    }
    if ((errno != ENOENT && errno != ENOTDIR) || path == "/") {
      return fail_file("finding", path);
    }
    path = split_path(path).parent;
  }
}

Result<> sync_one(const std::string& path, bool tree) {
  const Fd fd{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC)};
  if (!fd) {
    // Replaced, removed, or nothing that can be opened: there is nothing of ours in it.
    return errno == ENOENT || errno == ELOOP || errno == ENXIO
               ? Result<>{}
               : Result<>{fail_file("syncing", path)};
  }
  if ((tree ? ::syncfs(fd.get()) : ::fsync(fd.get())) != 0 && errno != EINVAL) {
    return fail_file("syncing", path);
  }
  return {};
}

}  // namespace

Result<> sync_file(FileChannel& channel, const SyncFileRequest& request) {
  TRY(std::string path, find_place(clean_path(request.path)));
  TRY_DO(sync_one(path, request.tree));
  while (!request.tree && path != "/") {
    path = split_path(path).parent;
    TRY_DO(sync_one(path, false));
  }
  return channel.send(Kind::kDone);
}

}  // namespace atl::guest
