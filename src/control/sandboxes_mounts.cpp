// Volumes in sandboxes: bound by a claim, kept in the row, so that every new cell of the sandbox
// has them again.
//
// A sandbox holds its volumes from the moment its claim begins until it is gone. One that is to
// lose a volume loses it in its row first; then the volume is taken out of its tree while it runs.
// Killed in between, its cell still has a mount of something that is being deleted, which hurts
// nobody and ends with the cell.
#include <algorithm>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/entry.h"
#include "control/limits.h"

namespace atl::control {

Result<std::vector<Mount>> Sandboxes::bind_mounts(const ClaimRequest& request, std::size_t index,
                                                  const std::string& template_name) {
  if (index < request.own_mounts.size()) {
    if (mount_keeper_ != nullptr) {
      TRY_DO(mount_keeper_->admit(request.own_mounts[index]));
    }
    return request.own_mounts[index];
  }
  if (request.mounts.empty()) {
    return request.mounts;
  }
  if (mount_keeper_ == nullptr) {
    return fail(Code::kUnimplemented, "this server has no volumes");
  }
  TRY_DO(node::check_mounts(node_mounts(request.mounts)));
  std::vector<Mount> wanted = request.mounts;
  const auto& read_only = templates_.defaults(template_name, request.team_id).read_only_mounts;
  for (Mount& mount : wanted) {
    mount.read_only = mount.read_only || read_only.contains(mount.path);
  }
  return mount_keeper_->bind(request.team_id, std::move(wanted), request.count);
}

std::vector<std::string> Sandboxes::mounted_in(std::string_view volume_id) const {
  std::vector<std::string> ids;
  for (const auto& [id, entry] : entries_) {
    if (std::ranges::find(entry->row.mounts, volume_id, &Mount::volume_id) !=
        entry->row.mounts.end()) {
      ids.push_back(id);
    }
  }
  return ids;
}

Task<> Sandboxes::unmount(std::string volume_id) {
  return shielded(unmount_now(std::move(volume_id)));
}

Task<> Sandboxes::unmount_now(std::string volume_id) {
  for (const std::string& id : mounted_in(volume_id)) {
    const auto found = entries_.find(id);
    if (found == entries_.end()) {
      continue;
    }
    const EntryPointer entry = found->second;
    CO_TRY(const auto held, co_await with_deadline(kNodeTimeout, hold(entry)));
    if (!entry->gone) {
      CO_TRY_DO(co_await unmount_held(entry, volume_id));
    }
  }
  co_return ok();
}

// REQUIRES: the entry is held.
Task<> Sandboxes::unmount_held(EntryPointer entry, std::string volume_id) {
  Sandbox next = entry->row;
  std::erase_if(next.mounts, [&](const Mount& mount) { return mount.volume_id == volume_id; });
  std::vector<Mount> lost = entry->row.mounts;
  std::erase_if(lost, [&](const Mount& mount) { return mount.volume_id != volume_id; });
  CO_TRY_DO(co_await configure(entry, std::move(next)));
  ATOLL_FAULT_POINT("control.unmount.recorded");
  for (const Mount& mount : lost) {
    if (entry->guest_socket.empty()) {
      break;  // it has no cell
    }
    node::DetachRequest request{entry->row.id, node_mounts({mount}).front()};
    auto detached = co_await with_deadline(kNodeTimeout, node_.detach_volume(std::move(request)));
    if (detached) {
      LOG_INFO("volume detached", {"sandbox", entry->row.id}, {"volume", volume_id});
      continue;
    }
    // It is somewhere else in the tree by now, or the node does not know how: a new cell has none.
    LOG_WARN("a volume cannot be detached; the sandbox starts again without it",
             {"sandbox", entry->row.id}, {"error", detached.error()});
    CO_TRY_DO(co_await end_cell(entry));
    if (entry->row.status == SandboxStatus::kRunning) {
      CO_TRY_DO(co_await restart(entry));
    }
  }
  co_return ok();
}

Task<> Sandboxes::without_users(std::string volume_id, bool force, std::function<Task<>()> change) {
  return shielded(without_users_now(std::move(volume_id), force, std::move(change)));
}

// Also one whose memory is on disk has processes: they know the volume as it was.
bool Sandboxes::has_processes(const Entry& entry) {
  return !entry.gone && (!entry.guest_socket.empty() || entry.dumped ||
                         entry.row.status == SandboxStatus::kRunning);
}

// Killed in between: a `running` row without a cell starts again.
Task<> Sandboxes::without_users_now(std::string volume_id, bool force,
                                    std::function<Task<>()> change) {
  std::vector<Hold> holds;
  for (const std::string& id : mounted_in(volume_id)) {
    const auto found = entries_.find(id);
    if (found != entries_.end()) {
      const EntryPointer entry = found->second;
      CO_TRY(auto held, co_await with_deadline(kNodeTimeout, hold(entry)));
      holds.push_back(std::move(held));
    }
  }
  const auto user =
      std::ranges::find_if(holds, [](const Hold& held) { return has_processes(*held.entry()); });
  if (user != holds.end() && !force) {
    co_return fail(
        Code::kFailedPrecondition,
        concat("volume ", volume_id, " is mounted in ", user->entry()->row.id,
               "; pause it without its memory or delete it first, or restore with force"),
        "volume_mounted");
  }
  Result<> changed;
  for (const Hold& held : holds) {
    const EntryPointer& entry = held.entry();
    if (changed && !entry->gone && (!entry->guest_socket.empty() || entry->dumped)) {
      changed = co_await end_cell(entry);
    }
  }
  ATOLL_FAULT_POINT("control.volume.users_ended");
  if (changed) {
    changed = co_await change();
  }
  for (const Hold& held : holds) {
    const EntryPointer& entry = held.entry();
    if (entry->gone || entry->row.status != SandboxStatus::kRunning ||
        !entry->guest_socket.empty()) {
      continue;
    }
    if (auto restarted = co_await restart(entry); !restarted) {
      LOG_WARN("a sandbox is not started again yet", {"sandbox", entry->row.id},
               {"error", restarted.error()});
      unsettle(*entry);
    }
  }
  co_return std::move(changed);
}

}  // namespace atl::control
