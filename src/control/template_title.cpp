#include "control/template_title.h"

#include <algorithm>

#include "base/random.h"
#include "base/strings.h"

namespace atl::control {
namespace {

constexpr std::size_t kMaxPartBytes = 63;
constexpr std::size_t kUuidBytes = 36;

bool is_word(std::string_view text, std::string_view others) {
  return !text.empty() && text.size() <= kMaxPartBytes &&
         std::ranges::all_of(text, [others](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || others.contains(c);
         });
}

std::unexpected<Error> refuse(std::string_view what, std::string_view text) {
  return fail(Code::kInvalidArgument,
              concat("invalid template ", what, " \"", to_valid_utf8(text), "\"; use 1 to ",
                     kMaxPartBytes, " of a-z, 0-9, '-' and '_'"));
}

}  // namespace

bool is_uuid(std::string_view text) {
  if (text.size() != kUuidBytes) {
    return false;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    const char c = text[i];
    const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (dash ? c != '-' : !digit) {
      return false;
    }
  }
  return true;
}

std::string random_uuid() {
  std::string digits = random_hex(32);
  digits[12] = '4';
  digits[16] = "89ab"[static_cast<unsigned char>(digits[16]) % 4];
  return concat(digits.substr(0, 8), "-", digits.substr(8, 4), "-", digits.substr(12, 4), "-",
                digits.substr(16, 4), "-", digits.substr(20));
}

std::string derived_template_id(std::string_view text) {
  constexpr std::string_view kDigits = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::string id;
  for (const char c : sha256(text).substr(0, kTemplateIdBytes)) {
    id += kDigits[static_cast<unsigned char>(c) % kDigits.size()];
  }
  return id;
}

Result<std::string> parse_tag(std::string_view text) {
  std::string tag = to_lower(trim(text));
  if (!is_word(tag, "-_.") || is_uuid(tag)) {
    return fail(Code::kInvalidArgument,
                concat("invalid tag \"", to_valid_utf8(text), "\"; use 1 to ", kMaxPartBytes,
                       " of a-z, 0-9, '-', '_' and '.'"));
  }
  return tag;
}

Result<TemplateTitle> parse_title(std::string_view text) {
  const std::string whole = to_lower(trim(text));
  std::string_view rest = whole;
  TemplateTitle title;
  if (const auto colon = rest.find(':'); colon != std::string_view::npos) {
    const std::string_view tag = rest.substr(colon + 1);
    if (is_uuid(tag)) {
      title.tag = tag;  // one build
    } else {
      TRY(title.tag, parse_tag(tag));
    }
    rest = rest.substr(0, colon);
  }
  if (const auto slash = rest.find('/'); slash != std::string_view::npos) {
    title.space = rest.substr(0, slash);
    if (!is_word(title.space, "-_")) {
      return refuse("namespace", title.space);
    }
    rest = rest.substr(slash + 1);
  }
  title.alias = rest;
  if (!is_word(title.alias, "-_")) {
    return refuse("name", text);
  }
  return title;
}

}  // namespace atl::control
