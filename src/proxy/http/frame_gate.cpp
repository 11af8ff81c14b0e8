#include "proxy/http/frame_gate.h"

#include <algorithm>

namespace atl::proxy::http {
namespace {

std::unexpected<Error> broken(const char* what) {
  return fail(Code::kInvalidArgument, what, "malformed_message");
}

}  // namespace

// As far as it is known: two bytes say the rest.
std::size_t FrameGate::head_bytes() const {
  if (have_bytes_ < 2) {
    return 2;
  }
  const unsigned length = head_[1] & 0x7FU;
  return 2 + (length == 126 ? 2 : length == 127 ? 8 : 0) + ((head_[1] & 0x80U) != 0 ? 4 : 0);
}

Result<> FrameGate::end_head() {
  const unsigned opcode = head_[0] & 0x0FU;
  const bool is_control = opcode >= 8;
  const bool is_final = (head_[0] & 0x80U) != 0;
  const bool is_masked = (head_[1] & 0x80U) != 0;
  unsigned short_length = head_[1] & 0x7FU;
  std::uint64_t length = short_length;
  const std::size_t extra = short_length == 126 ? 2 : short_length == 127 ? 8 : 0;
  if (extra > 0) {
    length = 0;
    for (std::size_t at = 0; at < extra; ++at) {
      length = length << 8U | head_[2 + at];
    }
  }
  if ((opcode > 2 && opcode < 8) || opcode > 10 || (head_[0] & 0x30U) != 0) {
    return broken("a WebSocket frame of an unknown kind");
  }
  if (is_control && (!is_final || short_length > 125 || (head_[0] & 0x40U) != 0)) {
    return broken("a WebSocket control frame that is none");
  }
  if (is_masked != from_client_) {
    return broken("a WebSocket frame is masked in the wrong direction");
  }
  if ((extra == 2 && length < 126) || (extra == 8 && (length < 65536 || length >> 63U != 0))) {
    return broken("the length of a WebSocket frame is malformed");
  }
  if (is_masked) {
    std::copy_n(head_.begin() + 2 + extra, mask_.size(), mask_.begin());
  }
  mask_at_ = 0;
  payload_bytes_ = length;
  have_bytes_ = 0;
  return {};
}

Result<> FrameGate::pass(std::string_view bytes, std::string* payload) {
  while (!bytes.empty()) {
    if (payload_bytes_ > 0) {
      const auto size = std::min<std::uint64_t>(payload_bytes_, bytes.size());
      payload_bytes_ -= size;
      for (std::size_t at = 0; payload != nullptr && at < size; ++at) {
        const unsigned char mask = from_client_ ? mask_[mask_at_++ % mask_.size()] : 0;
        payload->push_back(static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ mask));
      }
      bytes.remove_prefix(size);
      continue;
    }
    head_[have_bytes_++] = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    if (have_bytes_ >= 2 && have_bytes_ == head_bytes()) {
      TRY_DO(end_head());
    }
  }
  return {};
}

}  // namespace atl::proxy::http
