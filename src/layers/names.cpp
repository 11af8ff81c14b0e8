#include "layers/names.h"

#include <sys/random.h>

#include <algorithm>

#include "base/strings.h"
#include "layers/limits.h"

namespace atl::layers {

bool is_valid_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kMaxNameBytes && name.front() != '.' &&
         std::ranges::all_of(name, allowed);
}

Result<> check_name(std::string_view what, std::string_view name) {
  if (is_valid_name(name)) {
    return {};
  }
  std::string message = concat("the ", what, " name \"");
  append_printable(message, name.substr(0, kMaxNameBytes));
  message += "\" is not of the form [a-z0-9._-]{1,128} without a leading dot";
  return fail(Code::kInvalidArgument, std::move(message));
}

std::string unique_name(std::string_view prefix, std::string_view name) {
  char random[8];
  CHECK(::getrandom(random, sizeof random, 0) == static_cast<ssize_t>(sizeof random));
  return concat(prefix, name, "-", hex({random, sizeof random}));
}

}  // namespace atl::layers
