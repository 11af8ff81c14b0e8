#include "runtime/namespaces/device_mount.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <string>

#include "base/strings.h"
#include "runtime/namespaces/kernel_calls.h"

namespace atl::runtime::namespaces {
namespace {

struct DeviceNode {
  const char* name;
  unsigned major;
  unsigned minor;
};
constexpr DeviceNode kNodes[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                                 {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};

Result<Fd> make_tmpfs(std::uint32_t id_base, std::uint64_t bytes) {
  const Fd context{::fsopen("tmpfs", FSOPEN_CLOEXEC)};
  if (!context) {
    return fail_errno("making the cell's /dev");
  }
  const std::string id = std::to_string(id_base);
  const std::string size = std::to_string(bytes);
  const struct {
    const char* key;
    const char* value;
  } options[] = {{"mode", "0755"},
                 {"size", size.c_str()},
                 {"nr_inodes", "65536"},
                 {"uid", id.c_str()},
                 {"gid", id.c_str()}};
  for (const auto& option : options) {
    if (::fsconfig(context.get(), FSCONFIG_SET_STRING, option.key, option.value, 0) != 0) {
      return fail_errno(concat("making the cell's /dev: option ", option.key));
    }
  }
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return fail_errno("making the cell's /dev");
  }
  Fd mount{::fsmount(context.get(), FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)};
  if (!mount) {
    return fail_errno("mounting the cell's /dev");
  }
  return mount;
}

}  // namespace

Result<Fd> make_device_mount(std::uint32_t id_base, std::uint64_t bytes) {
  TRY(Fd mount, make_tmpfs(id_base, bytes));
  for (const DeviceNode& node : kNodes) {
    // The mode is set apart because the process's umask would cut it.
    if (::mknodat(mount.get(), node.name, S_IFCHR, makedev(node.major, node.minor)) != 0 ||
        ::fchmodat(mount.get(), node.name, 0666, 0) != 0 ||
        ::fchownat(mount.get(), node.name, id_base, id_base, AT_SYMLINK_NOFOLLOW) != 0) {
      const bool forbidden = errno == EPERM;
      Error error = errno_error(concat("making the cell's /dev/", node.name));
      if (forbidden) {
        error.message += " (the node needs CAP_MKNOD and leave to make device nodes)";
      }
      return fail(std::move(error));
    }
  }
  // Where the guest is mounted.
  if (::mknodat(mount.get(), "init", S_IFREG | 0444, 0) != 0) {
    return fail_errno("making the cell's /dev/init");
  }
  return mount;
}

}  // namespace atl::runtime::namespaces
