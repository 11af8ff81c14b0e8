// Volumes: made, listed, forked, gone back in, deleted. Their files are FileRoutes.
#pragma once

#include "control/volumes.h"
#include "service/native/routes.h"

namespace atl::service::native {

class VolumeRoutes {
 public:
  // Null: this server has none, and no routes for them.
  explicit VolumeRoutes(control::Volumes* volumes) : volumes_(volumes) {}
  void add_to(RouteTable& table);

 private:
  Task<> create(NativeExchange& exchange);
  Task<> list(NativeExchange& exchange);
  Task<> get(NativeExchange& exchange, std::string id);
  Task<> remove(NativeExchange& exchange, std::string id);
  Task<> fork(NativeExchange& exchange, std::string id);
  Task<> take(NativeExchange& exchange, std::string id);
  Task<> list_snapshots(NativeExchange& exchange, std::string id);
  Task<> get_snapshot(NativeExchange& exchange, std::string id, std::string snapshot_id);
  Task<> remove_snapshot(NativeExchange& exchange, std::string id, std::string snapshot_id);
  Task<> restore(NativeExchange& exchange, std::string id, std::string snapshot_id);

  control::Volumes* volumes_;
};

}  // namespace atl::service::native
