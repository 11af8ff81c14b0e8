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

constexpr const char* kOpaque = "user.overlay.opaque";

// The root of the tree keeps owner and mode. Extended attributes of a root say nothing to an
// overlay above it, except that its contents hide what is below: the one that is copied.
Result<> copy_root_attributes(int from, int to) {
  struct stat info{};
  if (::fstat(from, &info) != 0 || ::fchown(to, info.st_uid, info.st_gid) != 0 ||
      ::fchmod(to, info.st_mode & 07777) != 0) {
    return fail_errno("copying the attributes of a root directory");
  }
  std::array<char, 16> value{};
  const ssize_t size = ::fgetxattr(from, kOpaque, value.data(), value.size());
  if (size > 0 && ::fsetxattr(to, kOpaque, value.data(), static_cast<std::size_t>(size), 0) != 0) {
    return fail_errno("copying an attribute of a root directory");
  }
  return {};
}

Result<> move_names(int from, int to, const std::string& except) {
  TRY(const std::vector<std::string> names, list_names(from));
  for (const std::string& name : names) {
    if (name != except &&
        ::renameat2(from, name.c_str(), to, name.c_str(), RENAME_NOREPLACE) != 0) {
      return fail_errno(concat("moving ", name));
    }
  }
  return {};
}

// The tree in `aside` becomes the volume's own.
Result<> lift_tree(int volume, const std::string& aside) {
  TRY(const Fd tree, open_directory(volume, aside));
  TRY_DO(move_names(tree.get(), volume, ""));
  TRY_DO(copy_root_attributes(tree.get(), volume));
  if (::unlinkat(volume, aside.c_str(), AT_REMOVEDIR) != 0) {
    return fail_errno("removing an empty directory");
  }
  return {};
}

// What is in the volume goes into `aside`, which becomes "upper", whatever was lifted so far.
Result<> sink_tree(int volume, const std::string& aside) {
  {
    TRY(const Fd tree, open_directory(volume, aside));
    TRY_DO(move_names(volume, tree.get(), aside));
  }
  (void)::fremovexattr(volume, kOpaque);  // mostly not there
  if (::fchown(volume, 0, 0) != 0 || ::fchmod(volume, 0755) != 0 ||
      ::renameat2(volume, aside.c_str(), volume, "upper", RENAME_NOREPLACE) != 0 ||
      ::mkdirat(volume, "work", 0755) != 0 || ::fchmodat(volume, "work", 0755, 0) != 0) {
    return fail_errno("putting an upper back");
  }
  return {};
}

}  // namespace

Result<> promote_upper(int parent_fd, const std::string& name) {
  TRY(const Fd volume, open_directory(parent_fd, name));
  // The tree may have an "upper" of its own, so ours gets a name that is nobody's.
  const std::string aside = unique_name(".", "upper");
  if (::renameat2(volume.get(), "upper", volume.get(), aside.c_str(), RENAME_NOREPLACE) != 0) {
    return fail_errno("moving an upper aside");
  }
  auto promoted = remove_tree(volume.get(), "work");
  if (!promoted) {
    // The rest of it serves as well as all of it did.
    if (::renameat2(volume.get(), aside.c_str(), volume.get(), "upper", RENAME_NOREPLACE) != 0) {
      promoted.error().message += concat("; its tree stays in ", aside);
    }
    return promoted;
  }
  promoted = lift_tree(volume.get(), aside);
  if (!promoted) {
    if (const auto back = sink_tree(volume.get(), aside); !back) {
      promoted.error().message += concat("; and ", back.error().message);
    }
  }
  return promoted;
}

Result<> demote_layer(int parent_fd, const std::string& name) {
  TRY(const Fd volume, open_directory(parent_fd, name));
  const std::string aside = unique_name(".", "upper");
  if (::mkdirat(volume.get(), aside.c_str(), 0700) != 0) {
    return fail_errno("making a directory for an upper");
  }
  {
    TRY(const Fd tree, open_directory(volume.get(), aside));
    TRY_DO(copy_root_attributes(volume.get(), tree.get()));
  }
  return sink_tree(volume.get(), aside);
}

}  // namespace atl::layers
