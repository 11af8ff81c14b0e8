// Tokens for the contents of one volume: whose it is and until when, signed. Nothing is stored.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "control/access_tokens.h"

namespace atl::service::e2b {

// Clients keep theirs as long as they keep the volume, and cannot renew it without asking again.
inline constexpr UnixMillis kVolumeTokenMs = UnixMillis{24} * 3600 * 1000;

std::string make_volume_token(const control::AccessTokens& tokens, std::string_view team_id,
                              std::string_view volume_id, UnixMillis expires_at);

// The team that the token was made for; nothing when it is none, of another volume, or over.
std::optional<std::string> team_of_token(const control::AccessTokens& tokens,
                                         std::string_view token, std::string_view volume_id,
                                         UnixMillis now);

}  // namespace atl::service::e2b
