// The public keys with which the caller's team logs in over SSH.
#pragma once

#include "control/ssh_keys.h"
#include "service/native/routes.h"

namespace atl::service::native {

class SshKeyRoutes {
 public:
  // Without `keys` there are no such routes.
  explicit SshKeyRoutes(control::SshKeys* keys) : keys_(keys) {}
  void add_to(RouteTable& table);

 private:
  Task<> list(NativeExchange& exchange);
  Task<> add(NativeExchange& exchange);
  Task<> remove(NativeExchange& exchange, std::string id);

  control::SshKeys* keys_;
};

}  // namespace atl::service::native
