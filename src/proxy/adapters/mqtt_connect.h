// MQTT's first packet with another name and password in it. Versions 3.1, 3.1.1 and 5. Sans-IO.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::proxy::adapters {

// A will may hold 64 KiB; nothing else in it is large.
inline constexpr std::size_t kMaxMqttConnectBytes = std::size_t{256} * 1024;

struct MqttConnect {
  std::size_t consumed = 0;  // of the bytes that were given
  std::uint8_t level = 0;    // 3: 3.1, 4: 3.1.1, 5: 5
  std::string packet;        // to be sent instead
};

// Nothing when more bytes are needed; kInvalidArgument when they are no CONNECT, or ask for an
// authentication of their own.
Result<std::optional<MqttConnect>> rewrite_mqtt_connect(std::string_view bytes,
                                                        std::string_view username,
                                                        std::string_view password);
// The answer that refuses a CONNECT of this version ("not authorized").
std::string mqtt_refusal(std::uint8_t level);

}  // namespace atl::proxy::adapters
