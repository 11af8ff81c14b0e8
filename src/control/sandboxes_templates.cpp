// What sandboxes and templates have to do with each other.
#include <algorithm>

#include "base/scope.h"
#include "control/entry.h"
#include "control/limits.h"
#include "control/prepared_cells.h"
#include "control/sandboxes.h"

namespace atl::control {

Task<> Sandboxes::refresh_templates() {
  CO_TRY(auto hello, co_await with_deadline(kNodeTimeout, node_.hello()));
  sampling_ = hello.disk_quota;
  dumps_memory_ = hello.memory_dump;
  dumps_memory_reason_ = hello.memory_dump_reason;
  egress_ = hello.egress;
  egress_ipv6_ = hello.egress_ipv6;
  egress_reason_ = hello.egress_reason;
  if (hello.pool_total_bytes != 0) {
    ResourcePolicy& policy = options_.resources;
    policy.max_disk_bytes = std::clamp(hello.pool_total_bytes >> 20 << 20, policy.min_disk_bytes,
                                       policy.max_disk_bytes);
  }
  co_return co_await templates_.refresh(store_, std::move(hello.templates), clock_.now());
}

std::size_t Sandboxes::count_of_template(std::string_view name) const {
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(),
                    [&](const auto& item) { return item.second->row.template_name == name; }));
}

std::set<std::string> Sandboxes::used_layers() const {
  std::set<std::string> layers = also_used_layers_ ? also_used_layers_() : std::set<std::string>{};
  for (const auto& [id, entry] : entries_) {
    layers.insert(entry->row.layers.begin(), entry->row.layers.end());
  }
  if (prepared_ != nullptr) {
    layers.merge(prepared_->used_layers());
  }
  return layers;
}

}  // namespace atl::control
