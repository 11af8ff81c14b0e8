#include "layers/btrfs_ioctl.h"

#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>

#include "base/strings.h"

namespace atl::layers::btrfs {
namespace {

// Newer than the headers of Debian 12.
constexpr std::uint64_t kQuotaEnableSimple = 4;
constexpr std::uint64_t kNoLimit = ~0ULL;

void set_name(btrfs_ioctl_vol_args_v2& arguments, const std::string& name) {
  CHECK(name.size() < sizeof arguments.name);
  std::memcpy(arguments.name, name.c_str(), name.size() + 1);
}

btrfs_qgroup_limit limit_of(std::uint64_t limit_bytes) {
  btrfs_qgroup_limit limit{};
  limit.flags = BTRFS_QGROUP_LIMIT_MAX_RFER;
  limit.max_rfer = limit_bytes == 0 ? kNoLimit : limit_bytes;
  return limit;
}

}  // namespace

bool is_btrfs(int fd) {
  struct statfs info{};
  return ::fstatfs(fd, &info) == 0 && info.f_type == BTRFS_SUPER_MAGIC;
}

Result<std::string> file_system_uuid(int fd) {
  btrfs_ioctl_fs_info_args info{};
  if (::ioctl(fd, BTRFS_IOC_FS_INFO, &info) != 0) {
    return fail_errno("asking btrfs for its identity");
  }
  const std::string digits = hex({reinterpret_cast<const char*>(info.fsid), BTRFS_FSID_SIZE});
  return concat(digits.substr(0, 8), "-", digits.substr(8, 4), "-", digits.substr(12, 4), "-",
                digits.substr(16, 4), "-", digits.substr(20));
}

Result<> create_subvolume(int parent_fd, const std::string& name, std::uint64_t limit_bytes) {
  btrfs_ioctl_vol_args_v2 arguments{};
  set_name(arguments, name);
  btrfs_qgroup_inherit inherit{};
  if (limit_bytes != 0) {
    inherit.flags = BTRFS_QGROUP_INHERIT_SET_LIMITS;
    inherit.lim = limit_of(limit_bytes);
    arguments.flags = BTRFS_SUBVOL_QGROUP_INHERIT;
    arguments.size = sizeof inherit;
    arguments.qgroup_inherit = &inherit;
  }
  if (::ioctl(parent_fd, BTRFS_IOC_SUBVOL_CREATE_V2, &arguments) != 0) {
    return fail_errno(concat("creating subvolume ", name));
  }
  return {};
}

Result<> snapshot_subvolume(int subvolume_fd, int parent_fd, const std::string& name,
                            bool read_only) {
  btrfs_ioctl_vol_args_v2 arguments{};
  set_name(arguments, name);
  arguments.fd = subvolume_fd;
  arguments.flags = read_only ? BTRFS_SUBVOL_RDONLY : 0;
  if (::ioctl(parent_fd, BTRFS_IOC_SNAP_CREATE_V2, &arguments) != 0) {
    return fail_errno(concat("snapshotting into ", name));
  }
  return {};
}

Result<> commit(int fd) {
  // The rename of a subvolume forbids the log, so this commits the transaction, here and now. To
  // start and await a commit by the ioctls leaves it to a kernel thread whose wake-up can get lost:
  // then everybody waited for its next round, 30 s.
  if (::fsync(fd) != 0) {
    return fail_errno("committing to the pool");
  }
  // There may have been nothing left to write; the file system is read-only after a failure.
  struct statvfs info{};
  if (::fstatvfs(fd, &info) != 0) {
    return fail_errno("looking at the pool after a commit");
  }
  if ((info.f_flag & ST_RDONLY) != 0) {
    return fail(Code::kUnavailable, "the pool is read-only, so nothing can be kept");
  }
  return {};
}

Result<> destroy_subvolume(int parent_fd, const std::string& name) {
  btrfs_ioctl_vol_args_v2 arguments{};
  set_name(arguments, name);
  if (::ioctl(parent_fd, BTRFS_IOC_SNAP_DESTROY_V2, &arguments) == 0 || errno == ENOENT) {
    return {};
  }
  if (errno != ENOTTY && errno != EOPNOTSUPP) {
    return fail_errno(concat("destroying subvolume ", name));
  }
  // Before Linux 5.7.
  btrfs_ioctl_vol_args old_arguments{};
  if (name.size() > BTRFS_PATH_NAME_MAX) {
    return fail(Code::kInvalidArgument, "the subvolume's name is too long");
  }
  std::memcpy(old_arguments.name, name.c_str(), name.size() + 1);
  if (::ioctl(parent_fd, BTRFS_IOC_SNAP_DESTROY, &old_arguments) != 0 && errno != ENOENT) {
    return fail_errno(concat("destroying subvolume ", name));
  }
  return {};
}

Result<> destroy_subvolume(int fd, std::uint64_t subvolume) {
  btrfs_ioctl_vol_args_v2 arguments{};
  arguments.flags = BTRFS_SUBVOL_SPEC_BY_ID;
  arguments.subvolid = subvolume;
  if (::ioctl(fd, BTRFS_IOC_SNAP_DESTROY_V2, &arguments) != 0 && errno != ENOENT) {
    return fail_errno(concat("destroying subvolume ", subvolume));
  }
  return {};
}

Result<std::vector<std::uint64_t>> nested_subvolumes(int fd, std::uint64_t subvolume) {
  std::vector<std::uint64_t> found;
  btrfs_ioctl_search_args search{};
  btrfs_ioctl_search_key& key = search.key;
  key.tree_id = BTRFS_ROOT_TREE_OBJECTID;
  key.min_objectid = key.max_objectid = subvolume;
  key.min_type = key.max_type = BTRFS_ROOT_REF_KEY;
  key.max_offset = key.max_transid = ~0ULL;
  for (;;) {
    key.nr_items = ~0U;
    if (::ioctl(fd, BTRFS_IOC_TREE_SEARCH, &search) != 0) {
      return fail_errno(concat("looking for subvolumes in ", subvolume));
    }
    if (key.nr_items == 0) {
      return found;
    }
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < key.nr_items; ++i) {
      btrfs_ioctl_search_header header{};
      std::memcpy(&header, search.buf + at, sizeof header);
      at += sizeof header + header.len;
      found.push_back(header.offset);
    }
    key.min_offset = found.back() + 1;
  }
}

Result<std::uint64_t> subvolume_id(int subvolume_fd) {
  btrfs_ioctl_ino_lookup_args arguments{};
  arguments.objectid = BTRFS_FIRST_FREE_OBJECTID;
  if (::ioctl(subvolume_fd, BTRFS_IOC_INO_LOOKUP, &arguments) != 0) {
    return fail_errno("asking for a subvolume's number");
  }
  return arguments.treeid;
}

Result<> set_read_only(int subvolume_fd, bool read_only) {
  std::uint64_t flags = 0;
  if (::ioctl(subvolume_fd, BTRFS_IOC_SUBVOL_GETFLAGS, &flags) != 0) {
    return fail_errno("reading a subvolume's flags");
  }
  flags = read_only ? flags | BTRFS_SUBVOL_RDONLY : flags & ~BTRFS_SUBVOL_RDONLY;
  if (::ioctl(subvolume_fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags) != 0) {
    return fail_errno("changing a subvolume's flags");
  }
  return {};
}

Result<> enable_quota(int fd) {
  for (const std::uint64_t command : {kQuotaEnableSimple, std::uint64_t{BTRFS_QUOTA_CTL_ENABLE}}) {
    btrfs_ioctl_quota_ctl_args arguments{};
    arguments.cmd = command;
    if (::ioctl(fd, BTRFS_IOC_QUOTA_CTL, &arguments) == 0 || errno == EEXIST) {
      return {};
    }
  }
  return fail_errno("enabling quotas");
}

Result<> set_limit(int subvolume_fd, std::uint64_t limit_bytes) {
  // Quota group 0 stands for the subvolume the descriptor is in.
  btrfs_ioctl_qgroup_limit_args arguments{};
  arguments.lim = limit_of(limit_bytes);
  if (::ioctl(subvolume_fd, BTRFS_IOC_QGROUP_LIMIT, &arguments) != 0) {
    return fail_errno("setting a disk limit");
  }
  return {};
}

Result<> remove_quota_group(int fd, std::uint64_t subvolume) {
  btrfs_ioctl_qgroup_create_args arguments{};
  arguments.create = 0;
  arguments.qgroupid = subvolume;
  if (::ioctl(fd, BTRFS_IOC_QGROUP_CREATE, &arguments) != 0 && errno != ENOENT) {
    return fail_errno("removing a quota group");
  }
  return {};
}

bool subvolume_exists(int fd, std::uint64_t subvolume) {
  btrfs_ioctl_ino_lookup_args arguments{};
  arguments.treeid = subvolume;
  arguments.objectid = BTRFS_FIRST_FREE_OBJECTID;
  return ::ioctl(fd, BTRFS_IOC_INO_LOOKUP, &arguments) == 0 || errno != ENOENT;
}

}  // namespace atl::layers::btrfs
