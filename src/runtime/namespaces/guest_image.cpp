#include "runtime/namespaces/guest_image.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "base/random.h"
#include "base/strings.h"
#include "runtime/namespaces/kernel_calls.h"

namespace atl::runtime::namespaces {
namespace {

Result<std::string> read_program(const std::string& path) {
  auto program = read_file(path, kMaxGuestBytes);
  if (program && program->empty()) {
    return fail(Code::kInvalidArgument, concat("the guest binary ", path, " is no program"));
  }
  return program;
}

}  // namespace

Result<std::unique_ptr<GuestImages>> GuestImages::open(const std::string& directory,
                                                       const std::string& guest_binary) {
  std::unique_ptr<GuestImages> images{new GuestImages{directory}};
  TRY_DO(images->close());
  if (::mount("guests", directory.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700") != 0) {
    return fail_errno(concat("mounting ", directory));
  }
  TRY(images->current_, images->keep(guest_binary));
  return images;
}

// Under a name that says what is in it, so each program is there once.
Result<std::string> GuestImages::keep(const std::string& file) {
  TRY(const std::string program, read_program(file));
  const std::string copy = concat(directory_, "/", hex(sha256(program)));
  const std::lock_guard guard{mutex_};
  if (::access(copy.c_str(), F_OK) == 0) {
    return copy;
  }
  TRY_DO(replace_file(copy, program, {}));
  if (::chmod(copy.c_str(), 0555) != 0) {  // whatever the node's umask is
    return fail_errno(concat("making ", copy));
  }
  return copy;
}

Result<Fd> GuestImages::mount_copy(const std::string& copy) {
  return make_program_mount(copy);
}

Result<Fd> GuestImages::mount_from(const std::string& file) {
  TRY(const std::string copy, keep(file));
  return mount_copy(copy);
}

// Running cells keep what they have.
Result<> GuestImages::close() {
  if (::umount2(directory_.c_str(), MNT_DETACH) != 0 && errno != EINVAL && errno != ENOENT) {
    return fail_errno(concat("unmounting ", directory_));
  }
  return {};
}

Result<> copy_program(const std::string& source, const std::string& target) {
  TRY(const std::string program, read_program(source));
  return replace_file(target, program, {.mode = 0600});
}

Result<Fd> make_program_mount(const std::string& path) {
  Fd mount{::open_tree(AT_FDCWD, path.c_str(),
                       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW)};
  if (!mount) {
    return fail_errno(concat("opening ", path));
  }
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  attributes.attr_clr = MOUNT_ATTR_NOEXEC;
  if (::mount_setattr(mount.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) != 0) {
    return fail_errno(concat("mounting ", path));
  }
  return mount;
}

}  // namespace atl::runtime::namespaces
