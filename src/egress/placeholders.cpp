#include "egress/placeholders.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::egress {
namespace {

constexpr std::size_t kMaxDecodedBytes = std::size_t{64} * 1024;

int hex_value(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Every escape that can be decoded is; the rest stays. For searching only.
std::string loosely_percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool room = text[at] == '%' && at + 2 < text.size();
    const int high = room ? hex_value(text[at + 1]) : -1;
    const int low = room ? hex_value(text[at + 2]) : -1;
    if (high >= 0 && low >= 0) {
      out += static_cast<char>(high << 4 | low);
      at += 2;
    } else {
      out += text[at];
    }
  }
  return out;
}

bool is_base64(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
         c == '/' || c == '-' || c == '_';
}

// A run of base64 characters decoded from each of its four phases: a placeholder in the middle of
// encoded text begins at any of them.
bool hides_in_base64(std::string_view run, const std::vector<std::string>& placeholders) {
  std::string plain{run.substr(0, kMaxDecodedBytes)};
  std::replace(plain.begin(), plain.end(), '-', '+');
  std::replace(plain.begin(), plain.end(), '_', '/');
  for (std::size_t phase = 0; phase < 4 && phase < plain.size(); ++phase) {
    const auto piece = plain.substr(phase);
    // The end as the padding would have it; whole groups only, when that is not base64.
    auto padded = piece;
    padded.append((4 - piece.size() % 4) % 4, '=');
    auto decoded = base64_decode(padded);
    if (!decoded) {
      decoded = base64_decode(piece.substr(0, piece.size() - piece.size() % 4));
    }
    if (decoded && std::any_of(placeholders.begin(), placeholders.end(), [&](const auto& one) {
          return decoded->find(one) != std::string::npos;
        })) {
      return true;
    }
  }
  return false;
}

bool occurs_in_base64(std::string_view text, const std::vector<std::string>& placeholders) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto begin =
        std::find_if(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), is_base64);
    const auto end = std::find_if_not(begin, text.end(), is_base64);
    const std::string_view run{begin, end};
    if (run.size() >= kLeastPlaceholderBytes && hides_in_base64(run, placeholders)) {
      return true;
    }
    at = static_cast<std::size_t>(end - text.begin());
  }
  return false;
}

bool has_line_break(std::string_view value) {
  return std::any_of(value.begin(), value.end(),
                     [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

}  // namespace

ValueEscape escape_for_content_type(std::string_view content_type) {
  const auto type = to_lower(trim(content_type.substr(0, content_type.find(';'))));
  if (type == "application/json" || type.ends_with("+json") || type == "application/x-ndjson") {
    return ValueEscape::kJson;
  }
  return type == "application/x-www-form-urlencoded" ? ValueEscape::kPercent : ValueEscape::kNone;
}

std::string escape_value(std::string_view value, ValueEscape escape) {
  switch (escape) {
    case ValueEscape::kNone:
      return std::string{value};
    case ValueEscape::kJson: {
      std::string quoted;
      append_json_string(quoted, value);
      return quoted.substr(1, quoted.size() - 2);  // it stands in somebody's quotes
    }
    case ValueEscape::kPercent: {
      std::string out;
      for (const char c : value) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
        if (plain) {
          out += c;
        } else {
          out += '%';
          out += hex(std::string_view{&c, 1});
        }
      }
      return out;
    }
  }
  return {};
}

PlaceholderRewriter::PlaceholderRewriter(std::vector<Replacement> replacements, ValueEscape escape)
    : replacements_(std::move(replacements)), escape_(escape) {
  std::erase_if(replacements_, [](const auto& one) { return one.placeholder.empty(); });
  std::sort(replacements_.begin(), replacements_.end(), [](const auto& a, const auto& b) {
    return a.placeholder.size() > b.placeholder.size();
  });
}

std::string PlaceholderRewriter::take_complete(bool last) {
  std::string out;
  std::size_t at = 0;
  while (at < waiting_.size()) {
    const auto rest = std::string_view{waiting_}.substr(at);
    const Replacement* whole = nullptr;
    bool could_be_longer = false;
    for (const auto& one : replacements_) {
      if (rest.starts_with(one.placeholder)) {
        whole = &one;
        break;
      }
      could_be_longer = could_be_longer || std::string_view{one.placeholder}.starts_with(rest);
    }
    if (could_be_longer && !last) {
      break;
    }
    if (whole != nullptr) {
      out += escape_value(whole->value, escape_);
      at += whole->placeholder.size();
      ++replaced_;
    } else {
      out += waiting_[at++];
    }
  }
  waiting_.erase(0, at);
  return out;
}

std::string PlaceholderRewriter::feed(std::string_view chunk) {
  waiting_ += chunk;
  return take_complete(false);
}

std::string PlaceholderRewriter::finish() {
  return take_complete(true);
}

std::string rewrite_text(std::string_view text, const std::vector<Replacement>& replacements,
                         ValueEscape escape) {
  PlaceholderRewriter rewriter{replacements, escape};
  auto out = rewriter.feed(text);
  out += rewriter.finish();
  return out;
}

Result<std::string> rewrite_header(std::string_view name, std::string_view value,
                                   const std::vector<Replacement>& replacements) {
  constexpr std::string_view kBasic = "basic ";
  std::string rewritten = rewrite_text(value, replacements, ValueEscape::kNone);
  const bool authorization = equals_ignore_case(name, "authorization");
  if (authorization && equals_ignore_case(value.substr(0, kBasic.size()), kBasic)) {
    const auto pair = base64_decode(trim(value.substr(kBasic.size())));
    if (pair) {
      const auto inside = rewrite_text(*pair, replacements, ValueEscape::kNone);
      if (inside != *pair) {
        rewritten = concat("Basic ", base64_encode(inside));
      }
    }
  }
  if (has_line_break(rewritten)) {
    return fail(Code::kInvalidArgument, concat("the credential cannot be sent in the header \"",
                                               name, "\": its value has a line break"));
  }
  return rewritten;
}

std::optional<std::string> find_placeholder(std::string_view text,
                                            const std::vector<std::string>& placeholders) {
  const auto decoded = loosely_percent_decoded(text);
  for (const auto& one : placeholders) {
    if (text.find(one) != std::string_view::npos || decoded.find(one) != std::string::npos) {
      return one;
    }
    if (occurs_in_base64(text, {one}) || occurs_in_base64(decoded, {one})) {
      return one;
    }
  }
  return std::nullopt;
}

}  // namespace atl::egress
