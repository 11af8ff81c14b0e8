// The port where sandboxes are reached by SSH.
#pragma once

#include <memory>

#include "control/ssh_keys.h"
#include "control/store_access.h"
#include "daemon/api_process.h"
#include "ingress/ssh_gateway.h"
#include "secrets/keyring.h"
#include "service/native/native_api.h"

namespace atl::daemon {

struct SshParts {
  io::Reactor& reactor;
  control::Sandboxes& sandboxes;
  const control::SshKeys& keys;
  control::StoreAccess store;
  const secrets::Keyring& keyring;
  const WallClock& clock;
  service::native::NativeApi& native;
  ingress::Connect connect;
};

// Null: no SSH.
Task<std::unique_ptr<ingress::SshGateway>> open_ssh(SshParts parts, const ApiOptions& options);

}  // namespace atl::daemon
