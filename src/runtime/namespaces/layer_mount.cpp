#include "runtime/namespaces/layer_mount.h"

#include <fcntl.h>

#include <cerrno>

#include "base/strings.h"
#include "runtime/namespaces/kernel_calls.h"

namespace atl::runtime::namespaces {
namespace {

// What is wrong with the directory is for whoever named it; that the node has no room left is not.
Error about_directory(const std::string& what) {
  Error error = errno_error(what);
  if (error.code != Code::kResourceExhausted) {
    error.code = Code::kFailedPrecondition;
  }
  return error;
}

}  // namespace

Result<Fd> make_layer_mount(const std::string& directory, const LayerMountOptions& options) {
  Fd mount{::open_tree(AT_FDCWD, directory.c_str(),
                       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW)};
  if (!mount) {
    return fail(about_directory(concat("opening layer directory ", directory)));
  }
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NODEV |
                        (options.read_only ? MOUNT_ATTR_RDONLY : 0U) |
                        (options.honours_set_user_id ? 0U : MOUNT_ATTR_NOSUID) |
                        (options.executable ? 0U : MOUNT_ATTR_NOEXEC);
  attributes.userns_fd = static_cast<std::uint64_t>(options.user_namespace_fd);
  if (::mount_setattr(mount.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) != 0) {
    const bool unsupported = errno == EINVAL;
    Error error = about_directory(concat("id-mapping ", directory));
    if (unsupported) {
      error.message += " (its file system cannot be id-mapped: use ext4, xfs or btrfs)";
    }
    return fail(std::move(error));
  }
  return mount;
}

}  // namespace atl::runtime::namespaces
