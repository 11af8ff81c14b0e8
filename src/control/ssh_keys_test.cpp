// Keys of teams, over a real store.
#include "control/ssh_keys.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "control/fixture.h"
#include "ssh/private_key.h"

namespace atl::control {
namespace {

class SshKeysTest : public testing::Test {
 protected:
  static std::string new_line() {
    return ssh::format_public_key(*ssh::public_half(*ssh::make_host_key(), {}));
  }

  TemporaryDirectory directory_;
  Simulation simulation_;
  std::unique_ptr<store::Store> store_ = *store::open_sqlite_store(directory_.path() + "/atoll.db");
  StoreAccess access_{*store_, nullptr};
  SshKeys keys_{access_, simulation_.clock};
};

TEST_F(SshKeysTest, BelongToATeamAndAreKeptOverAStart) {
  ASSERT_TRUE(simulation_.run(keys_.load()));
  const std::string line = new_line();
  const auto made = simulation_.run(keys_.add("one", " laptop ", concat(line, " me@laptop")));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->name, "laptop");
  const auto again = simulation_.run(keys_.add("one", "again", line));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kAlreadyExists);
  ASSERT_TRUE(simulation_.run(keys_.add("two", "theirs", line)));
  EXPECT_EQ(keys_.teams_of(made->key.blob), (std::vector<std::string>{"one", "two"}));
  EXPECT_TRUE(keys_.teams_of("other").empty());

  SshKeys later{access_, simulation_.clock};
  ASSERT_TRUE(simulation_.run(later.load()));
  ASSERT_EQ(later.list("one").size(), 1U);
  EXPECT_EQ(later.list("one").front().key.comment, "me@laptop");
  EXPECT_FALSE(simulation_.run(later.remove("two", made->id))) << "another team's";
  ASSERT_TRUE(simulation_.run(later.remove("one", made->id)));
  EXPECT_EQ(later.teams_of(made->key.blob), std::vector<std::string>{"two"});
}

TEST_F(SshKeysTest, RefusesWhatIsNoKeyAndTooMany) {
  EXPECT_FALSE(simulation_.run(keys_.add("one", "", new_line())));
  EXPECT_FALSE(simulation_.run(keys_.add("one", "x", "ssh-ed25519 AAAA")));
  for (std::size_t i = 0; i < kMaxSshKeysPerTeam; ++i) {
    ASSERT_TRUE(simulation_.run(keys_.add("one", "x", new_line())));
  }
  const auto more = simulation_.run(keys_.add("one", "x", new_line()));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().reason, "quota_exceeded");
  EXPECT_TRUE(simulation_.run(keys_.add("two", "x", new_line())));
}

TEST_F(SshKeysTest, TheHostKeyIsMadeOnceAndSealed) {
  const auto keyring = secrets::Keyring::parse(secrets::Keyring::make_key_line());
  ASSERT_TRUE(keyring);
  const auto first =
      simulation_.run(load_or_make_ssh_host_key(access_, *keyring, simulation_.clock));
  const auto second =
      simulation_.run(load_or_make_ssh_host_key(access_, *keyring, simulation_.clock));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->reveal(), second->reveal());
  const auto records = store_->list_records("ssh-host-key");
  ASSERT_TRUE(records);
  ASSERT_EQ(records->size(), 1U);
  EXPECT_FALSE(records->front().body.contains("PRIVATE"));
}

}  // namespace
}  // namespace atl::control
