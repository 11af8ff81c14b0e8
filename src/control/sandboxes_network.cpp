// Cells that come and go, as the network sees them.
#include "base/log.h"
#include "control/entry.h"

namespace atl::control {

// A cell that is there but not on the network runs on without, and is tried again.
Task<> Sandboxes::greet_cell(EntryPointer entry, node::CellInfo cell) {
  entry->guest_socket = cell.guest_socket;
  if (started_) {
    started_(entry->row);
  }
  if (network_keeper_ == nullptr || !egress_) {
    co_return ok();
  }
  auto attached = co_await network_keeper_->attach(entry->row, std::move(cell.network));
  if (!attached) {
    LOG_WARN("a sandbox is not on the network yet", {"sandbox", entry->row.id},
             {"error", attached.error()});
    unsettle(*entry);
  }
  co_return ok();
}

Task<> Sandboxes::join_network(Sandbox as, node::CellInfo cell) {
  if (network_keeper_ == nullptr || !egress_) {
    co_return ok();
  }
  co_return co_await network_keeper_->attach(std::move(as), std::move(cell.network));
}

void Sandboxes::leave_network(std::string_view id) {
  if (network_keeper_ != nullptr) {
    network_keeper_->detach(id);
  }
}

void Sandboxes::lose_cell(Entry& entry) {
  entry.guest_socket.clear();
  if (network_keeper_ != nullptr) {
    network_keeper_->detach(entry.row.id);
  }
}

std::string Sandboxes::guest_socket_now(std::string_view id) const {
  const auto found = entries_.find(id);
  const bool runs = found != entries_.end() && found->second->row.status == SandboxStatus::kRunning;
  return runs && !found->second->pausing ? found->second->guest_socket : std::string{};
}

std::optional<Sandbox> Sandboxes::named(const std::string& team_id, const std::string& name) const {
  const auto found = names_.find({team_id, name});
  if (found == names_.end() || found->second->unwanted ||
      to_be_removed(found->second->row.status)) {
    return std::nullopt;
  }
  return view(*found->second);
}

}  // namespace atl::control
