// The seed that tokens come from: durable, renewed with its key, replaced when it is lost.
#include "control/access_tokens.h"

#include "base/strings.h"
#include "control/sandboxes_fixture.h"

namespace atl::control {
namespace {

class AccessTokensTest : public SandboxesTest {
 protected:
  std::string token_with(const secrets::Keyring& keyring) {
    auto seed = simulation_.run(
        load_or_make_token_seed(StoreAccess{*store_, nullptr}, keyring, simulation_.clock));
    EXPECT_TRUE(seed) << seed.error().message;
    return seed ? AccessTokens{*std::move(seed)}.agent_token("i1") : "";
  }
};

TEST_F(AccessTokensTest, StayWhileTheirKeyIsThere) {
  const std::string first_line = secrets::Keyring::make_key_line();
  const std::string second_line = secrets::Keyring::make_key_line();
  const auto first = *secrets::Keyring::parse(first_line);
  const auto both = *secrets::Keyring::parse(concat(second_line, "\n", first_line));
  const auto second = *secrets::Keyring::parse(second_line);
  const std::string token = token_with(first);
  EXPECT_EQ(token.size(), 64U);
  EXPECT_EQ(token_with(first), token);
  EXPECT_EQ(token_with(both), token);
  EXPECT_EQ(token_with(second), token) << "it was sealed again with the newer key";
}

TEST_F(AccessTokensTest, AreOthersWhenTheKeyIsLost) {
  const std::string token = token_with(*secrets::Keyring::parse(secrets::Keyring::make_key_line()));
  const auto other = *secrets::Keyring::parse(secrets::Keyring::make_key_line());
  const std::string replaced = token_with(other);
  EXPECT_NE(replaced, token);
  EXPECT_EQ(token_with(other), replaced);
}

}  // namespace
}  // namespace atl::control
