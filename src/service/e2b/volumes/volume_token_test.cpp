#include "service/e2b/volumes/volume_token.h"

#include <gtest/gtest.h>

namespace atl::service::e2b {
namespace {

TEST(VolumeToken, IsOfOneTeamAndVolumeUntilItEnds) {
  const control::AccessTokens tokens{secrets::Plaintext{"seed"}};
  const std::string token = make_volume_token(tokens, "team.a", "vol-1", 1000);
  EXPECT_EQ(team_of_token(tokens, token, "vol-1", 999), "team.a");
  EXPECT_EQ(team_of_token(tokens, token, "vol-1", 1000), std::nullopt);
  EXPECT_EQ(team_of_token(tokens, token, "vol-2", 999), std::nullopt);
  const control::AccessTokens others{secrets::Plaintext{"other seed"}};
  EXPECT_EQ(team_of_token(others, token, "vol-1", 999), std::nullopt);
}

TEST(VolumeToken, CannotBeChanged) {
  const control::AccessTokens tokens{secrets::Plaintext{"seed"}};
  const std::string token = make_volume_token(tokens, "a", "vol-1", 1000);
  EXPECT_EQ(team_of_token(tokens, "9" + token, "vol-1", 1), std::nullopt);
  EXPECT_EQ(team_of_token(tokens, token + "b", "vol-1", 1), std::nullopt);
  for (const auto* text : {"", ".", "..", "1000..a", "1000.x", "e2b_00"}) {
    EXPECT_EQ(team_of_token(tokens, text, "vol-1", 1), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace atl::service::e2b
