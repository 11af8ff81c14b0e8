#include "service/e2b/volumes/volume_token.h"

#include "base/random.h"
#include "base/strings.h"

namespace atl::service::e2b {
namespace {

constexpr std::string_view kPurpose = "volume-content";

// No id has a line break: what is signed reads in one way.
std::string signature_of(const control::AccessTokens& tokens, std::string_view team_id,
                         std::string_view volume_id, std::string_view expires) {
  return tokens.token(kPurpose, concat(team_id, "\n", volume_id, "\n", expires));
}

}  // namespace

std::string make_volume_token(const control::AccessTokens& tokens, std::string_view team_id,
                              std::string_view volume_id, UnixMillis expires_at) {
  const std::string expires = std::to_string(expires_at);
  return concat(expires, ".", signature_of(tokens, team_id, volume_id, expires), ".", team_id);
}

std::optional<std::string> team_of_token(const control::AccessTokens& tokens,
                                         std::string_view token, std::string_view volume_id,
                                         UnixMillis now) {
  const auto first = token.find('.');
  const auto second = first == token.npos ? token.npos : token.find('.', first + 1);
  if (second == token.npos) {
    return std::nullopt;
  }
  const auto expires = token.substr(0, first);
  const auto team_id = token.substr(second + 1);
  const std::string right = signature_of(tokens, team_id, volume_id, expires);
  const auto until = parse_i64(expires);
  if (!equal_constant_time(token.substr(first + 1, second - first - 1), right) || !until ||
      *until <= now || team_id.contains('\n')) {
    return std::nullopt;
  }
  return std::string{team_id};
}

}  // namespace atl::service::e2b
