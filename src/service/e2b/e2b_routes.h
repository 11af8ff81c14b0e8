// The routes of E2B's control plane, for the parts to add theirs. A handler answers, or returns an
// Error that becomes {"code","message"}.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "control/identity.h"
#include "http/router.h"
#include "service/e2b/e2b_exchange.h"

namespace atl::service::e2b {

using E2bHandler = std::function<Task<>(E2bExchange&, const http::PathParameters&)>;

class E2bRoutes {
 public:
  explicit E2bRoutes(control::Identity& identity) : identity_(identity) {}

  // Needs a key (X-API-KEY, or Authorization: Bearer) whose roles allow `permission`.
  void add(std::string_view method, std::string_view pattern, control::Permission permission,
           E2bHandler handler);
  // Needs no key, or checks itself what it needs.
  void add_public(std::string_view method, std::string_view pattern, E2bHandler handler);
  http::Router::Match match(std::string_view method, std::string_view path) const {
    return router_.match(method, path);
  }

 private:
  control::Identity& identity_;
  http::Router router_;
};

// REQUIRES: the pattern has it.
std::string parameter(const http::PathParameters& parameters, std::string_view name);
// The key of a request; empty: none.
std::string_view key_of(const http::Headers& headers);

}  // namespace atl::service::e2b
