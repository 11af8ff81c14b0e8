#include "control/value_template.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::control {
namespace {

constexpr std::size_t kMaxRenderedBytes = std::size_t{64} * 1024;

bool is_key(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

}  // namespace

Result<ValueTemplate> ValueTemplate::parse(std::string_view text) {
  ValueTemplate out;
  while (!text.empty()) {
    const auto open = text.find("{{");
    if (open != 0) {
      const auto plain = text.substr(0, open);
      out.pieces_.push_back({.text = std::string{plain}});
      text.remove_prefix(plain.size());
      continue;
    }
    const auto close = text.find("}}");
    const auto inside =
        close == std::string_view::npos ? std::string_view{} : trim(text.substr(2, close - 2));
    if (!inside.starts_with('.') || !is_key(inside.substr(1))) {
      return fail(Code::kInvalidArgument,
                  "a value template is text with {{ .key }} in it, and nothing else in braces");
    }
    out.pieces_.push_back({.is_key = true, .text = std::string{inside.substr(1)}});
    text.remove_prefix(close + 2);
  }
  return out;
}

Result<std::string> ValueTemplate::render(const SecretValues& values) const {
  std::size_t size = 0;
  for (const Piece& piece : pieces_) {
    const auto found = piece.is_key ? values.find(piece.text) : values.end();
    if (piece.is_key && found == values.end()) {
      return fail(Code::kFailedPrecondition,
                  concat("the credential has no value \"", piece.text, "\""), "credential_key");
    }
    size += piece.is_key ? found->second.reveal().size() : piece.text.size();
  }
  if (size > kMaxRenderedBytes) {
    return fail(Code::kFailedPrecondition, "the credential's value is too long");
  }
  std::string out;
  out.reserve(size);  // so that no half of it is left behind by a move
  for (const Piece& piece : pieces_) {
    out += piece.is_key ? values.find(piece.text)->second.reveal() : std::string_view{piece.text};
  }
  return out;
}

}  // namespace atl::control
