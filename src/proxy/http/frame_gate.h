// Lets the bytes of WebSocket frames pass and nothing else (RFC 6455). Sans-IO.
//
// Only the heads of frames are looked at: known opcodes, whole and short control frames, masking in
// the right direction, minimal lengths. So an upgraded connection stays a WebSocket and is no
// tunnel for another protocol.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::proxy::http {

class FrameGate {
 public:
  explicit FrameGate(bool from_client) : from_client_(from_client) {}
  // Fails at the first byte that cannot be part of a frame. Appends what the frames carry, without
  // its mask, to `payload` when there is one.
  Result<> pass(std::string_view bytes, std::string* payload = nullptr);

 private:
  Result<> end_head();
  std::size_t head_bytes() const;

  const bool from_client_;
  std::array<unsigned char, 14> head_{};
  std::size_t have_bytes_ = 0;
  std::uint64_t payload_bytes_ = 0;
  std::array<unsigned char, 4> mask_{};
  std::size_t mask_at_ = 0;
};

}  // namespace atl::proxy::http
