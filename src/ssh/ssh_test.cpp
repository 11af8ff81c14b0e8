// Server and client against each other over a socket pair, and the texts of keys and known hosts.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/strings.h"
#include "io/reactor.h"
#include "ssh/bridge.h"
#include "ssh/client.h"
#include "ssh/known_hosts.h"
#include "ssh/private_key.h"
#include "ssh/server.h"

namespace atl::ssh {
namespace {

using Kind = ChannelRequest::Kind;

TEST(PublicKey, IsReadStrictly) {
  const std::string text = *make_host_key();
  const PublicKey key = *public_half(text, {});
  EXPECT_EQ(key.type, "ssh-ed25519");
  const std::string line = format_public_key(key);
  const auto read = parse_public_key(concat("  ", line, "  me @ home \n"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->blob, key.blob);
  EXPECT_EQ(read->comment, "me @ home");
  EXPECT_TRUE(fingerprint_sha256(key.blob).starts_with("SHA256:"));
  EXPECT_EQ(fingerprint_sha256(key.blob).size(), 7U + 43U);

  EXPECT_FALSE(parse_public_key(""));
  EXPECT_FALSE(parse_public_key("ssh-ed25519"));
  EXPECT_FALSE(parse_public_key(concat("ssh-rsa ", base64_encode(key.blob))));
  EXPECT_FALSE(parse_public_key(concat("command=\"x\" ", line)));
  EXPECT_FALSE(parse_public_key(concat(line, "\n", line)));
  EXPECT_FALSE(parse_public_key(concat("ssh-ed25519 ", base64_encode(key.blob + "x"))));
  EXPECT_FALSE(parse_public_key(
      concat("ssh-ed25519 ", base64_encode(key.blob.substr(0, key.blob.size() - 1)))));
  const auto secret = parse_public_key(text.substr(0, text.find('\n')));
  ASSERT_FALSE(secret);
  EXPECT_TRUE(secret.error().message.contains("private"));
  // A weak one: ssh-rsa with a modulus of 1024 bits.
  const auto field = [](std::string_view bytes) {
    std::string out(3, '\0');
    out.push_back(static_cast<char>(bytes.size()));
    return out + std::string{bytes};
  };
  std::string modulus(129, '\x7f');
  modulus[0] = '\0';
  modulus[1] = '\x80';
  std::string weak = field("ssh-rsa") + field("\x01") + std::string(3, '\0') +
                     static_cast<char>(modulus.size()) + modulus;
  const auto refused = parse_public_key_blob(weak);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.contains("1024")) << refused.error().message;
}

TEST(HostKey, IsDerivedTheSameFromTheSameSecret) {
  const std::string secret(32, 's');
  const std::string first = *derive_host_key(secret, "a");
  EXPECT_EQ(first, *derive_host_key(secret, "a"));
  EXPECT_NE(first, *derive_host_key(secret, "b"));
  EXPECT_TRUE(public_half(first, {}));
  EXPECT_FALSE(derive_host_key("short", "a"));
  EXPECT_FALSE(public_half("nonsense", {}));
}

TEST(KnownHosts, MatchesNamesPortsHashesAndRevocations) {
  const PublicKey one = *public_half(*make_host_key(), {});
  const PublicKey two = *public_half(*make_host_key(), {});
  const auto line = [](std::string_view hosts, const PublicKey& key) {
    return concat(hosts, " ", format_public_key(key));
  };
  const auto known = KnownHosts::parse(
      {"# comment", "", line("Git.example,10.0.0.?", one), line("[git.example]:2222", two),
       line("*.corp.example,!bad.corp.example", one), line("@revoked *", two)});
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_TRUE(known->verify("git.example", 22, one.blob));
  EXPECT_TRUE(known->verify("GIT.example", 22, one.blob));
  EXPECT_TRUE(known->verify("10.0.0.7", 22, one.blob));
  EXPECT_TRUE(known->verify("a.corp.example", 22, one.blob));
  EXPECT_FALSE(known->verify("bad.corp.example", 22, one.blob));
  EXPECT_FALSE(known->verify("git.example", 2222, one.blob));
  EXPECT_FALSE(known->verify("git.example", 2222, two.blob)) << "revoked everywhere it matches";
  EXPECT_FALSE(known->verify("git.example", 22, two.blob));
  EXPECT_FALSE(known->verify("other.example", 22, one.blob));
  EXPECT_EQ(known->key_types("git.example", 22), std::vector<std::string>{"ssh-ed25519"});
  EXPECT_TRUE(known->key_types("other.example", 22).empty());
  EXPECT_FALSE(KnownHosts::parse({line("@cert-authority *", one)}));
  EXPECT_FALSE(KnownHosts::parse({"git.example ssh-ed25519 AAAA"}));
  // As `ssh-keygen -H` writes "git.example" with the salt "0123456789abcdefghij".
  const auto hashed = KnownHosts::parse(
      {line("|1|MDEyMzQ1Njc4OWFiY2RlZmdoaWo=|5hyQVJ8yU3Ep3fKFNgfTL2ocIfs=", one)});
  ASSERT_TRUE(hashed);
  EXPECT_TRUE(hashed->verify("git.example", 22, one.blob));
  EXPECT_FALSE(hashed->verify("git.example.org", 22, one.blob));
}

// Runs "echo <text>" (back on standard output), "fail", "copy" (input to output, both streams).
class TestHandler final : public ServerHandler {
 public:
  std::string key_blob;
  std::string user;
  std::string terminal;
  std::vector<std::string> signals;

  bool let_in(std::string_view, std::string_view blob) override { return blob == key_blob; }
  void logged_in(std::string_view name) override { user = name; }

  Task<> serve_session(Channel& channel) override {
    for (;;) {
      CO_TRY(const auto request, co_await channel.next_request());
      if (request.kind == Kind::kTerminal) {
        terminal = concat(request.text, " ", request.rows, "x", request.columns);
        channel.answer(true);
      } else if (request.kind == Kind::kSignal) {
        signals.push_back(request.text);
      } else if (request.kind == Kind::kExec) {
        channel.answer(true);
        CO_TRY_DO(co_await run_command(channel, request.text));
        co_return co_await channel.flush();
      } else {
        channel.answer(false);
      }
    }
  }

 private:
  static Task<> run_command(Channel& channel, std::string command) {
    if (command.starts_with("echo ")) {
      CO_TRY_DO(co_await channel.write(std::string_view{command}.substr(5)));
    } else if (command == "copy") {
      std::string buffer(10'000, '\0');
      for (;;) {
        CO_TRY(const std::size_t got, co_await channel.read(buffer));
        if (got == 0) {
          break;
        }
        CO_TRY_DO(co_await channel.write(std::string_view{buffer}.substr(0, got)));
      }
      CO_TRY_DO(co_await channel.write_error("copied"));
    }
    channel.send_exit({.status = command == "fail" ? 3 : 0, .signal = {}});
    co_return ok();
  }
};

struct Outcome {
  std::string output;
  std::string error_output;
  std::optional<Exit> exit;
  bool accepted = false;
};

Task<std::string> read_all(Channel& channel, bool error) {
  std::string all;
  std::string buffer(10'000, '\0');
  for (;;) {
    CO_TRY(const std::size_t got,
           co_await (error ? channel.read_error(buffer) : channel.read(buffer)));
    if (got == 0) {
      co_return all;
    }
    all.append(buffer, 0, got);
  }
}

Task<> feed(Channel& channel, std::string input) {
  CO_TRY_DO(co_await channel.write(input));
  co_return channel.finish_writing();
}

class SshTest : public testing::Test {
 protected:
  SshTest() {
    handler_.key_blob = public_half(client_key_, {})->blob;
    const std::string line =
        concat("server.example ", format_public_key(*public_half(host_key_, {})));
    known_ = *KnownHosts::parse({line});
  }

  // Logs in and runs the commands one after another, each on its own channel.
  Task<std::vector<Outcome>> session(std::vector<std::string> commands, std::string input) {
    int ends[2];
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    Fd near{ends[0]};
    Fd far{ends[1]};
    Scope scope{co_await current_context()};
    scope.on_error([](const char*, const Error&) {});
    scope.spawn("server", serve(reactor_, std::move(far), {.host_key = host_key_}, handler_));
    auto outcomes = co_await as_client(std::move(near), std::move(commands), std::move(input));
    (void)co_await scope.cancel_and_join();
    co_return std::move(outcomes);
  }

  Task<std::vector<Outcome>> as_client(Fd near, std::vector<std::string> commands,
                                       std::string input) {
    CO_TRY(const auto client, co_await Client::connect(reactor_, std::move(near),
                                                       {.host = "server.example",
                                                        .port = 22,
                                                        .user = "me",
                                                        .private_key = client_key_,
                                                        .passphrase = {},
                                                        .known_hosts = known_}));
    Scope scope{co_await current_context()};
    scope.on_error([](const char*, const Error&) {});
    scope.spawn("client", client->run());
    std::vector<Outcome> outcomes;
    Result<> failed;
    for (const std::string& command : commands) {
      auto outcome = co_await run_one(*client, command, input);
      if (!outcome) {
        failed = fail(std::move(outcome).error());
        break;
      }
      outcomes.push_back(*std::move(outcome));
    }
    (void)co_await scope.cancel_and_join();
    CO_TRY_DO(std::move(failed));
    co_return std::move(outcomes);
  }

  static Task<Outcome> run_one(Client& client, std::string command, std::string input) {
    CO_TRY(const auto channel, co_await client.open_session());
    Outcome outcome;
    CO_TRY_DO(co_await channel->request(
        {.kind = Kind::kTerminal, .text = "xterm", .value = {}, .rows = 33, .columns = 99}));
    CO_TRY(const bool x11, co_await channel->request({.kind = Kind::kSubsystem, .text = "none"}));
    EXPECT_FALSE(x11);
    CO_TRY(outcome.accepted,
           co_await channel->request({.kind = Kind::kExec, .text = std::move(command)}));
    Scope scope{co_await current_context()};
    scope.on_error([](const char*, const Error&) {});
    scope.spawn("input", feed(*channel, std::move(input)));
    auto output = co_await read_all(*channel, false);
    auto error_output = co_await read_all(*channel, true);
    auto closed = co_await channel->wait_closed();
    (void)co_await scope.cancel_and_join();
    CO_TRY_DO(std::move(closed));
    CO_TRY(outcome.output, std::move(output));
    CO_TRY(outcome.error_output, std::move(error_output));
    outcome.exit = channel->exit();
    co_return std::move(outcome);
  }

  io::Reactor reactor_;
  std::string host_key_ = *make_host_key();
  std::string client_key_ = *make_host_key();
  KnownHosts known_;
  TestHandler handler_;
};

TEST_F(SshTest, RunsCommandsOnChannels) {
  const auto outcomes = reactor_.run_until_complete(session({"echo hello", "fail"}, ""));
  ASSERT_TRUE(outcomes) << outcomes.error().message;
  ASSERT_EQ(outcomes->size(), 2U);
  EXPECT_TRUE(outcomes->front().accepted);
  EXPECT_EQ(outcomes->front().output, "hello");
  ASSERT_TRUE(outcomes->front().exit);
  EXPECT_EQ(outcomes->front().exit->status, 0);
  ASSERT_TRUE(outcomes->back().exit);
  EXPECT_EQ(outcomes->back().exit->status, 3);
  EXPECT_EQ(handler_.user, "me");
  EXPECT_EQ(handler_.terminal, "xterm 33x99");
}

TEST_F(SshTest, CarriesMoreThanAnyWindow) {
  std::string input(8 << 20, 'x');
  for (std::size_t i = 0; i < input.size(); i += 4097) {
    input[i] = static_cast<char>(i);
  }
  const auto outcomes = reactor_.run_until_complete(session({"copy"}, input));
  ASSERT_TRUE(outcomes) << outcomes.error().message;
  EXPECT_TRUE(outcomes->front().output == input);
  EXPECT_EQ(outcomes->front().error_output, "copied");
}

TEST_F(SshTest, RefusesAnotherKey) {
  handler_.key_blob = public_half(host_key_, {})->blob;
  const auto outcomes = reactor_.run_until_complete(session({"echo hello"}, ""));
  ASSERT_FALSE(outcomes);
  EXPECT_EQ(outcomes.error().code, Code::kUnauthenticated) << outcomes.error().message;
  EXPECT_TRUE(handler_.user.empty());
}

TEST_F(SshTest, RefusesAServerThatIsNotKnown) {
  const std::string other =
      concat("server.example ", format_public_key(*public_half(*make_host_key(), {})));
  known_ = *KnownHosts::parse({other});
  const auto outcomes = reactor_.run_until_complete(session({"echo hello"}, ""));
  ASSERT_FALSE(outcomes);
  EXPECT_EQ(outcomes.error().code, Code::kPermissionDenied) << outcomes.error().message;
  known_ = {};
  const auto unknown = reactor_.run_until_complete(session({"echo hello"}, ""));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kPermissionDenied) << unknown.error().message;
}

}  // namespace
}  // namespace atl::ssh
