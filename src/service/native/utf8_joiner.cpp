#include "service/native/utf8_joiner.h"

#include <utility>

#include "base/strings.h"

namespace atl::service::native {
namespace {

std::size_t length_of(unsigned char lead) {
  if (lead >= 0xF0 && lead <= 0xF4) {
    return 4;
  }
  if (lead >= 0xE0 && lead < 0xF0) {
    return 3;
  }
  return lead >= 0xC2 && lead < 0xE0 ? 2 : 1;
}

// How many bytes at the end begin a character that is not complete.
std::size_t open_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) != 0x80U) {
      return length_of(byte) > back ? back : 0;
    }
  }
  return 0;
}

}  // namespace

std::string Utf8Joiner::add(std::string_view bytes) {
  std::string text = std::move(pending_);
  text += bytes;
  const std::size_t open = open_bytes(text);
  pending_ = text.substr(text.size() - open);
  text.resize(text.size() - open);
  return to_valid_utf8(text);
}

std::string Utf8Joiner::finish() {
  return to_valid_utf8(std::exchange(pending_, {}));
}

}  // namespace atl::service::native
