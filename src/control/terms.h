// On which terms a sandbox was made, beyond its row: what its end of time means, who may come in
// and how, and under which name its template was asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "control/sandbox_requests.h"

namespace atl::control {

struct Terms {
  struct NamedMount {
    std::string name;  // of the volume, as asked for
    std::string path;
    bool operator==(const NamedMount&) const = default;
  };

  std::int64_t timeout_seconds = 0;  // asked for at the claim
  TtlEnd ttl_end = TtlEnd::kPause;
  bool auto_resume = true;                 // traffic wakes it
  bool secure = true;                      // its agent wants the access token
  bool public_traffic = true;              // false: its ports want the traffic token
  std::string request_host;                // what services see as Host; ${PORT} is the port
  std::vector<std::uint16_t> https_ports;  // that speak TLS inside
  std::string asked_template;
  std::optional<bool> internet;  // whether it may leave at all, when somebody said so
  std::string network;           // as the client wrote it: for the client to read again
  std::vector<NamedMount> mounts;
  bool operator==(const Terms&) const = default;
};

Json terms_json(const Terms& terms);
Result<Terms> parse_terms(const Json& json);

}  // namespace atl::control
