#include "base/plain_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <iterator>

namespace atl {
namespace {

constexpr unsigned long kXfsMagic = 0x58465342;  // the kernel does not export it

// What the root of a sandbox, its volumes and its memory can be on. No sandbox can mount anything,
// so an overlay has only these below it.
constexpr unsigned long kPlainFilesystems[] = {OVERLAYFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
                                               EXT4_SUPER_MAGIC, kXfsMagic, TMPFS_MAGIC};

bool is_plain(unsigned long filesystem) {
  return std::ranges::find(kPlainFilesystems, filesystem) != std::end(kPlainFilesystems);
}

}  // namespace

Result<> check_plain_file(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) {
    return fail_errno("looking at a descriptor");
  }
  struct stat status{};
  struct statfs system{};
  if ((flags & O_PATH) != 0 || (flags & O_ACCMODE) != O_RDONLY || ::fstat(fd, &status) != 0 ||
      !S_ISREG(status.st_mode) || ::fstatfs(fd, &system) != 0 ||
      !is_plain(static_cast<unsigned long>(system.f_type))) {
    return fail(Code::kFailedPrecondition, "not a plain file that is open for reading",
                "not_plain_file");
  }
  return {};
}

}  // namespace atl
