#include "proxy/http/held_bytes.h"

#include "proxy/http/limits.h"

namespace atl::proxy::http {

Result<> HeldBytes::Share::hold(std::size_t bytes) {
  if (bytes == bytes_) {
    return {};
  }
  const auto found = all_->by_sandbox_.try_emplace(sandbox_id_, 0).first;
  const std::size_t own = found->second - bytes_ + bytes;
  const std::size_t everybodys = all_->held_ - bytes_ + bytes;
  const bool fits = bytes < bytes_ || (own <= kMaxSandboxHeldBytes && everybodys <= kMaxHeldBytes);
  if (fits) {
    found->second = own;
    all_->held_ = everybodys;
    bytes_ = bytes;
  }
  if (found->second == 0) {
    all_->by_sandbox_.erase(found);
  }
  if (!fits) {
    return fail(Code::kResourceExhausted, "too many bodies are being held for inspection; retry");
  }
  return {};
}

}  // namespace atl::proxy::http
