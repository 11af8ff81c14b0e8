// A service of a sandbox: a port (or a function) under a public name, and the rules of its routes.
// Values only; the document that people write is service_document.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/room.h"

namespace atl::control {

inline constexpr std::size_t kMaxServices = 32;  // of one sandbox
inline constexpr std::size_t kMaxServiceRoutes = 32;
inline constexpr std::size_t kMaxServiceMethods = 16;
inline constexpr std::size_t kMaxCorsValues = 32;
inline constexpr std::size_t kMaxServicePathBytes = 1024;
inline constexpr std::size_t kMaxServiceWords = 256;  // of a command
inline constexpr std::size_t kMaxFunctionBytes = std::size_t{256} * 1024;
inline constexpr std::int64_t kMaxFunctionConcurrency = 1024;
inline constexpr std::int64_t kMaxRouteTimeoutSeconds = std::int64_t{24} * 3600;
inline constexpr std::int64_t kMaxRouteRate = 1'000'000;
// Functions have no port of their own: all of a sandbox are found under this one.
inline constexpr std::uint16_t kFunctionPort = 49983;

struct RouteAuth {
  enum class Mode : std::uint8_t { kNone, kBearer, kHeader };
  Mode mode = Mode::kNone;
  std::string header_name;  // of kHeader
  std::string sha256;       // 32 raw bytes: of the token, or of the header's value
  bool operator==(const RouteAuth&) const = default;
};

struct RouteCors {
  std::vector<std::string> allowed_origins;  // "*": any
  std::vector<std::string> allowed_methods;
  std::vector<std::string> allowed_headers;
  std::vector<std::string> expose_headers;
  bool allow_credentials = false;
  std::int64_t max_age_seconds = 0;
  bool operator==(const RouteCors&) const = default;
};

struct RouteRate {
  std::int64_t per_second = 0;
  std::int64_t burst = 0;
  bool operator==(const RouteRate&) const = default;
};

struct ServiceRoute {
  std::string id;
  std::string path_prefix = "/";
  std::vector<std::string> methods;  // empty: all
  std::optional<std::string> rewrite_prefix;
  RouteAuth auth;
  std::optional<RouteCors> cors;
  std::optional<RouteRate> rate;
  std::int64_t timeout_seconds = 0;  // 0: none
  bool resume = false;
  bool operator==(const ServiceRoute&) const = default;
};

struct ServiceFunction {
  enum class Language : std::uint8_t { kPython, kJavascript };
  Language language = Language::kPython;
  std::string handler = "handler";
  std::int64_t max_concurrency = 0;  // 0: kMaxFunctionConcurrency
  std::string code;
  bool operator==(const ServiceFunction&) const = default;
};

struct Service {
  enum class Runtime : std::uint8_t { kNone, kManual, kCommand, kFunction };
  std::string id;
  std::string display_name;
  std::uint16_t port = 0;
  Runtime runtime = Runtime::kNone;
  std::vector<std::string> command;
  std::string cwd;
  store::StringMap env;
  std::optional<ServiceFunction> function;
  bool is_public = false;
  std::vector<ServiceRoute> routes;  // a public service has at least one
  std::string health_path;           // empty: a connection is enough
  bool operator==(const Service&) const = default;

  // We start it ourselves.
  bool is_started() const {
    return (runtime == Runtime::kCommand && !command.empty()) ||
           (runtime == Runtime::kFunction && function.has_value());
  }
};

// All services of one sandbox. Immutable: a change is a new one.
struct SandboxServices {
  std::string sandbox_id;
  std::string team_id;
  std::int64_t version = 0;  // of the record
  std::vector<Service> services;
};
// Shared by whoever serves a request with them.
using SandboxServicesPtr = std::shared_ptr<const SandboxServices>;

}  // namespace atl::control
