// Credential sources: written, listed, never read back.
#pragma once

#include "control/credential_sources.h"
#include "service/native/routes.h"

namespace atl::service::native {

class CredentialRoutes {
 public:
  // Null: this server has none, and no routes for them.
  explicit CredentialRoutes(control::CredentialSources* sources) : sources_(sources) {}
  void add_to(RouteTable& table);

 private:
  Task<> create(NativeExchange& exchange);
  Task<> list(NativeExchange& exchange);
  Task<> get(NativeExchange& exchange, std::string name);
  Task<> rotate(NativeExchange& exchange, std::string name);
  Task<> remove(NativeExchange& exchange, std::string name);

  control::CredentialSources* sources_;
};

}  // namespace atl::service::native
