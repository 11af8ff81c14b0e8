// The few btrfs ioctls we use, as functions. Nothing here decides anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace atl::layers::btrfs {

bool is_btrfs(int fd);
// As in /sys/fs/btrfs/<uuid>.
Result<std::string> file_system_uuid(int fd);

// Creates subvolume `name` in the directory. With a limit, it is limited from birth.
Result<> create_subvolume(int parent_fd, const std::string& name, std::uint64_t limit_bytes);
// A copy of the subvolume as it is now, what is only in memory included. Durable when it returns;
// the cost does not depend on its size.
Result<> snapshot_subvolume(int subvolume_fd, int parent_fd, const std::string& name,
                            bool read_only);
// What was renamed in this directory is on disk, and with it the whole transaction: names,
// attributes and snapshots, also what files hold as far as it has left memory. Does not wait for
// data of anybody.
Result<> commit(int fd);
// Unlinks it; the kernel frees its blocks in the background. The cost does not depend on its size.
Result<> destroy_subvolume(int parent_fd, const std::string& name);
// The same for one anywhere in the file system (from Linux 5.7).
Result<> destroy_subvolume(int fd, std::uint64_t subvolume);
// Those whose place is somewhere in this one, not in one of them.
Result<std::vector<std::uint64_t>> nested_subvolumes(int fd, std::uint64_t subvolume);
Result<std::uint64_t> subvolume_id(int subvolume_fd);
Result<> set_read_only(int subvolume_fd, bool read_only);

// Turns accounting on: simple quotas (Linux 6.7), else classic ones. Idempotent.
Result<> enable_quota(int fd);
// 0 lifts the limit.
Result<> set_limit(int subvolume_fd, std::uint64_t limit_bytes);
Result<> remove_quota_group(int fd, std::uint64_t subvolume);
// False when there is certainly no such subvolume.
bool subvolume_exists(int fd, std::uint64_t subvolume);

}  // namespace atl::layers::btrfs
