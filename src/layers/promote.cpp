#include "layers/promote.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>

#include "base/fd.h"
#include "base/strings.h"
#include "layers/directory.h"
#include "layers/names.h"
#include "layers/remove_tree.h"

namespace atl::layers {
namespace {

// The root of the tree keeps owner and mode. Extended attributes of a root say nothing to an
// overlay above it, except that its contents hide what is below: the one that is copied.
Result<> copy_root_attributes(int from, int to) {
  struct stat info{};
  if (::fstat(from, &info) != 0 || ::fchown(to, info.st_uid, info.st_gid) != 0 ||
      ::fchmod(to, info.st_mode & 07777) != 0) {
    return fail_errno("copying the attributes of a root directory");
  }
  constexpr const char* kOpaque = "user.overlay.opaque";
  std::array<char, 16> value{};
  const ssize_t size = ::fgetxattr(from, kOpaque, value.data(), value.size());
  if (size > 0 && ::fsetxattr(to, kOpaque, value.data(), static_cast<std::size_t>(size), 0) != 0) {
    return fail_errno("copying an attribute of a root directory");
  }
  return {};
}

}  // namespace

Result<> promote_upper(int parent_fd, const std::string& name) {
  TRY(const Fd volume, open_directory(parent_fd, name));
  TRY_DO(remove_tree(volume.get(), "work"));
  // The tree may have an "upper" of its own, so ours gets a name that is nobody's.
  const std::string aside = unique_name(".", "upper");
  if (::renameat2(volume.get(), "upper", volume.get(), aside.c_str(), RENAME_NOREPLACE) != 0) {
    return fail_errno("moving an upper aside");
  }
  TRY(const Fd tree, open_directory(volume.get(), aside));
  TRY(const std::vector<std::string> names, list_names(tree.get()));
  for (const std::string& entry : names) {
    if (::renameat2(tree.get(), entry.c_str(), volume.get(), entry.c_str(), RENAME_NOREPLACE) !=
        0) {
      return fail_errno(concat("moving ", entry));
    }
  }
  TRY_DO(copy_root_attributes(tree.get(), volume.get()));
  if (::unlinkat(volume.get(), aside.c_str(), AT_REMOVEDIR) != 0) {
    return fail_errno("removing an empty directory");
  }
  return {};
}

}  // namespace atl::layers
