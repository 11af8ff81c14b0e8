// The parts of the daemon that need no second process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/random.h"
#include "base/strings.h"
#include "daemon/account.h"
#include "daemon/admin_key.h"
#include "daemon/child.h"
#include "daemon/layout.h"
#include "daemon/notify.h"
#include "daemon/options.h"
#include "daemon/secrets_key.h"

namespace atl::daemon {
namespace {

class Words {
 public:
  explicit Words(std::vector<std::string> words) : words_(std::move(words)) {
    for (std::string& word : words_) {
      pointers_.push_back(word.data());
    }
  }
  std::span<char* const> span() const { return pointers_; }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

class DirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-daemon-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string directory_;
};

using LayoutTest = DirectoryTest;
using AdminKeyTest = DirectoryTest;
using NotifyTest = DirectoryTest;
using SecretsKeyTest = DirectoryTest;

TEST_F(SecretsKeyTest, IsMadeOnceForRootAndCheckedEachTime) {
  const std::string path = directory_ + "/secrets.key";
  const auto made = load_or_make_secrets_key(path);
  ASSERT_TRUE(made) << made.error().message;
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  EXPECT_EQ(load_or_make_secrets_key(path).value(), *made);
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_FALSE(load_or_make_secrets_key(path));
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  ASSERT_TRUE(replace_file(path, "not a key\n", {}));
  const auto bad = load_or_make_secrets_key(path);
  ASSERT_FALSE(bad);
  EXPECT_TRUE(bad.error().message.starts_with(path));
  const auto missing = load_given_secrets_key(directory_ + "/none");
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error().message.contains("openssl rand"));
}

TEST(ServeOptionsTest, DefaultsAndValues) {
  const auto none = parse_serve(Words{{}}.span());
  ASSERT_TRUE(none);
  EXPECT_EQ(none->data_dir, "/var/lib/atoll");
  EXPECT_EQ(none->port, 7070);
  const auto some = parse_serve(
      Words{{"--data-dir=/d", "--listen", "[::1]:0", "--pool-size", "2Gi", "--log", "json"}}
          .span());
  ASSERT_TRUE(some) << some.error().message;
  EXPECT_EQ(some->data_dir, "/d");
  EXPECT_EQ(some->host, "::1");
  EXPECT_EQ(some->port, 0);
  EXPECT_EQ(some->pool_bytes, 2ULL << 30);
  EXPECT_EQ(some->log, LogFormat::kJson);
}

TEST(ServeOptionsTest, TheBoundarysMayBeRepeatedAndReachTheApi) {
  const auto serve = parse_serve(
      Words{{"--dns-upstream", "192.0.2.1", "--dns-upstream", "[2001:db8::1]:5353", "--open-egress",
             "10.1.0.0/16", "--egress-connections", "50", "--egress-bandwidth", "10Mi"}}
          .span());
  ASSERT_TRUE(serve) << serve.error().message;
  EXPECT_EQ(serve->egress.dns_upstreams.size(), 2U);
  EXPECT_EQ(serve->egress.dns_upstreams[0].text(), "192.0.2.1:53");
  EXPECT_EQ(serve->egress.limits.bytes_per_second_in, 10U << 20);
  ApiOptions api;
  api.common = {"/d", "/r", "abcd", 61042, 61043, LogFormat::kJson, 77, 9};
  api.host = "127.0.0.1";
  api.approval_timeout_seconds = 60;
  api.admin_fd = 4;
  api.secrets_fd = 5;
  api.egress = serve->egress;
  api.egress.roots_fd = 12;
  auto words = to_words(api);
  words.erase(words.begin());
  const auto back = parse_api(Words{words}.span());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->egress.dns_upstreams, serve->egress.dns_upstreams);
  EXPECT_EQ(back->egress.opened, serve->egress.opened);
  EXPECT_EQ(back->egress.limits.connections, 50U);
  EXPECT_EQ(back->egress.limits.bytes_per_second_out, 10U << 20);
  EXPECT_EQ(back->egress.roots_fd, 12);
}

TEST(ServeOptionsTest, RefusesWhatItDoesNotUnderstand) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--lisen", "x"},
                                             {"extra"},
                                             {"--data-dir"},
                                             {"--data-dir="},
                                             {"--data-dir", "/a", "--data-dir", "/b"},
                                             {"--listen", "127.0.0.1"},
                                             {"--allow-s3-endpoint", "not a host"},
                                             {"--listen", "127.0.0.1:65536"},
                                             {"--listen", "::1:7070"},
                                             {"--pool-size", "big"},
                                             {"--pool-size", "0"},
                                             {"--dns-upstream", "dns.example"},
                                             {"--dns-upstream", "192.0.2.1:0"},
                                             {"--open-egress", "10.0.0.1/8"},
                                             {"--egress-connections", "many"},
                                             {"--egress-bandwidth", "fast"},
                                             {"--log", "xml"}}) {
    EXPECT_FALSE(parse_serve(Words{words}.span())) << words.front();
  }
}

TEST(ChildOptionsTest, SurviveTheTripThroughArguments) {
  NodeOptions node;
  node.common = {"/d", "/r", "abcd", 61042, 61043, LogFormat::kJson, 77, 9};
  node.cache_dir = "/c with space";
  node.guest_binary = "/g";
  node.criu_dir = "/criu";
  node.pool_bytes = 1ULL << 40;
  node.lock_fd = 5;
  auto words = to_words(node);
  EXPECT_EQ(words.front(), "node");
  words.erase(words.begin());
  const auto back = parse_node(Words{words}.span());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_words(*back), to_words(node));
  EXPECT_EQ(back->common.gid, 61043U);
  EXPECT_FALSE(parse_node(Words{{}}.span()));
  EXPECT_FALSE(parse_api(Words{{"--port", "1"}}.span()));
}

TEST(AccountTest, NeverRoot) {
  EXPECT_FALSE(find_account("root", "abcd"));
  EXPECT_FALSE(find_account("no-such-user-here", "abcd"));
  const auto usual = find_account("", "abcd");
  ASSERT_TRUE(usual);
  EXPECT_NE(usual->uid, 0U);
  EXPECT_NE(usual->gid, 0U);
}

TEST(AccountTest, EachInstallationHasItsOwnNumber) {
  std::set<uid_t> ids;
  for (int i = 0; i < 20; ++i) {
    const std::string instance = concat("0123abc", i);
    const uid_t id = reserved_id(instance);
    EXPECT_EQ(id, reserved_id(instance));
    EXPECT_GE(id, 61042U);
    EXPECT_LE(id, 62041U);
    ids.insert(id);
  }
  EXPECT_GE(ids.size(), 18U);
}

TEST_F(AdminKeyTest, IsMadeOnceForRootOnly) {
  const std::string path = directory_ + "/admin.key";
  const auto first = load_or_make_admin_key(path);
  ASSERT_TRUE(first) << first.error().message;
  const std::string key{trim(read_file(path).value_or(""))};
  EXPECT_EQ(key.size(), 46U);
  EXPECT_TRUE(key.starts_with("atoll_"));
  EXPECT_EQ(*first, sha256(key));
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  const auto second = load_or_make_admin_key(path);
  ASSERT_TRUE(second);
  EXPECT_EQ(*second, *first);
}

TEST_F(AdminKeyTest, RefusesAnOpenOrEmptyFile) {
  const std::string path = directory_ + "/admin.key";
  ASSERT_TRUE(load_or_make_admin_key(path));
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_FALSE(load_or_make_admin_key(path));
  ASSERT_TRUE(replace_file(path, "secret\n", {}));
  EXPECT_FALSE(load_or_make_admin_key(path));
}

TEST_F(AdminKeyTest, TheHandedOverHashCannotBeChanged) {
  const auto fd = seal_in_memory("0123");
  ASSERT_TRUE(fd);
  EXPECT_LT(::pwrite(fd->get(), "x", 1, 0), 0);
  EXPECT_NE(::ftruncate(fd->get(), 0), 0);
}

TEST_F(LayoutTest, TakesAnEmptyDirectoryAndItsOwnOnly) {
  const auto fresh = open_layout(directory_ + "/new/deep");
  ASSERT_TRUE(fresh) << fresh.error().message;
  EXPECT_EQ(fresh->instance.size(), 8U);
  EXPECT_EQ(fresh->run_dir, "/run/atoll/" + fresh->instance);
  const auto same = open_layout(directory_ + "/new/../new/deep");
  ASSERT_TRUE(same);
  EXPECT_EQ(same->instance, fresh->instance);
  ASSERT_TRUE(replace_file(directory_ + "/new/deep/precious", "x", {}));
  const auto foreign = open_layout(directory_ + "/new/deep");
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, Code::kFailedPrecondition);
}

TEST_F(LayoutTest, OnlyOneMayRunOnADirectory) {
  const auto layout = open_layout(directory_ + "/d");
  ASSERT_TRUE(layout);
  {
    EXPECT_FALSE(running_address(layout->data_dir));
    const auto lock = lock_layout(*layout, "127.0.0.1:7070");
    ASSERT_TRUE(lock) << lock.error().message;
    EXPECT_EQ(running_address(layout->data_dir).value_or("none"), "127.0.0.1:7070");
    const auto second = lock_layout(*layout, "127.0.0.1:7071");
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().message.find(std::to_string(::getpid())), std::string::npos);
  }
  EXPECT_FALSE(running_address(layout->data_dir));  // what the file says counts no longer
  EXPECT_TRUE(lock_layout(*layout, ""));
  EXPECT_TRUE(open_layout(directory_ + "/d"));  // with its lock file it is recognised
}

TEST_F(NotifyTest, SpeaksToTheServiceManagerOnce) {
  const std::string path = directory_ + "/notify";
  const Fd receiver{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  ASSERT_EQ(::bind(receiver.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  const ServiceNotifier notifier;
  EXPECT_EQ(std::getenv("NOTIFY_SOCKET"), nullptr);
  notifier.send("READY=1");
  char buffer[64];
  ASSERT_EQ(::recv(receiver.get(), buffer, sizeof buffer, MSG_DONTWAIT), 7);
  EXPECT_EQ(std::string_view(buffer, 7), "READY=1");
}

TEST(ChildTest, DescribesHowAProcessEnded) {
  EXPECT_EQ(describe_end(3 << 8), "exit status 3");
  EXPECT_EQ(describe_end(9), "signal 9 (Killed)");
}

}  // namespace
}  // namespace atl::daemon
