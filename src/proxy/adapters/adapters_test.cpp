// The adapters over socket pairs: a client on one side, a server of the test on the other.
#include "proxy/adapters/adapters.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/scope.h"
#include "base/strings.h"
#include "proxy/adapters/injection.h"
#include "proxy/adapters/postgres_messages.h"
#include "ssh/client.h"
#include "ssh/private_key.h"
#include "ssh/server.h"

namespace atl::proxy::adapters {
namespace {

using namespace std::string_literals;

struct Pair {
  Fd near;
  Fd far;
};
Pair make_pair() {
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  return {Fd{ends[0]}, Fd{ends[1]}};
}

class TestSession final : public Session {
 public:
  std::shared_ptr<egress::SandboxRules> own = std::make_shared<egress::SandboxRules>();
  egress::RulesPtr rules() const override { return own; }
};

class TestUpstreams final : public Upstreams {
 public:
  explicit TestUpstreams(io::Reactor& reactor) : reactor_(reactor) {}
  Fd next;
  Task<std::unique_ptr<io::Stream>> dial(std::shared_ptr<Session>, egress::Flow,
                                         std::shared_ptr<FlowAccount>) override {
    if (!next) {
      co_return fail(Code::kUnavailable, "nobody listens");
    }
    co_return std::unique_ptr<io::Stream>{
        std::make_unique<io::FdStream>(reactor_, std::move(next))};
  }

 private:
  io::Reactor& reactor_;
};

class TestCredentials final : public egress::Credentials {
 public:
  egress::MaterialPtr material;
  Task<egress::MaterialPtr> resolve(egress::RulesPtr, std::string) override {
    if (!material) {
      co_return fail(Code::kUnavailable, "the source is gone");
    }
    co_return material;
  }
};

class NoApprovals final : public egress::Approvals {
 public:
  Task<bool> ask(egress::ApprovalQuestion) override { co_return false; }
};

class TestAuthorities final : public egress::Authorities {
 public:
  Task<std::shared_ptr<const egress::Authority>> authority(std::string sandbox_id) override {
    co_return std::make_shared<const egress::Authority>(
        egress::Authority{"certificate", concat("a key that nobody can guess of ", sandbox_id)});
  }
};

Task<std::string> read_until(io::Stream& stream, std::string_view wanted) {
  std::string all;
  char buffer[4096];
  while (!all.contains(wanted)) {
    CO_TRY(const std::size_t got, co_await stream.read(buffer));
    if (got == 0) {
      co_return fail(Code::kUnavailable, concat("it ended with: ", all));
    }
    all.append(buffer, got);
  }
  co_return all;
}

class AdaptersTest : public testing::Test {
 protected:
  void use(egress::CredentialProtocol protocol, egress::Projection projection,
           std::shared_ptr<egress::Material> material) {
    egress::Policy policy;
    policy.credential_rules.push_back({.credential_ref = "it", .protocol = protocol});
    session_->own->sandbox_id = "sandbox-1";
    session_->own->layers.push_back({"sandbox", std::move(policy)});
    session_->own->bindings.push_back({.ref = "it", .projection = projection});
    material->kind = projection.kind;
    material->source_version = "it@1";
    credentials_.material = std::move(material);
  }

  void use_password(egress::CredentialProtocol protocol) {
    auto material = std::make_shared<egress::Material>();
    material->username = "app";
    material->password = "real";
    use(protocol, {.kind = egress::ProjectionKind::kUsernamePassword}, std::move(material));
  }

  Connection connection(Fd client, std::uint16_t port = 22) {
    Connection made;
    made.client = std::make_unique<io::FdStream>(reactor_, std::move(client));
    made.flow.name = "server.example";
    made.flow.port = port;
    made.session = session_;
    made.account = account_;
    return made;
  }

  // Runs the adapter beside `test`, which has the client's and the server's end.
  using Test = std::function<Task<>(io::Stream& client, io::Stream& server)>;
  Task<> run(ConnectionHandler handler, Test test) {
    Pair inside = make_pair();
    Pair outside = make_pair();
    upstreams_.next = std::move(outside.near);
    io::FdStream client{reactor_, std::move(inside.near)};
    io::FdStream server{reactor_, std::move(outside.far)};
    Scope scope{co_await current_context()};
    scope.on_error([](const char*, const Error&) {});
    scope.spawn("adapter", handler(surroundings_, connection(std::move(inside.far))));
    auto outcome = co_await with_deadline(std::chrono::seconds{20}, test(client, server));
    (void)co_await scope.cancel_and_join();
    co_return std::move(outcome);
  }

  io::Reactor reactor_;
  io::OffloadPool threads_{"test", 1, 10};
  SystemWallClock clock_;
  TestUpstreams upstreams_{reactor_};
  TestCredentials credentials_;
  NoApprovals approvals_;
  TestAuthorities authorities_;
  Surroundings surroundings_{reactor_,     threads_,   clock_,       upstreams_,
                             credentials_, approvals_, authorities_, ""};
  std::shared_ptr<TestSession> session_ = std::make_shared<TestSession>();
  std::shared_ptr<FlowAccount> account_ = std::make_shared<FlowAccount>();
};

Task<> redis_conversation(io::Stream& client, io::Stream& server) {
  CO_TRY_DO(co_await client.write("PING\r\nAUTH wrong\r\n"));
  constexpr std::string_view kLogin = "*3\r\n$4\r\nAUTH\r\n$3\r\napp\r\n$4\r\nreal\r\n";
  CO_TRY(const auto login, co_await read_until(server, "real\r\n"));
  EXPECT_EQ(login, kLogin);
  CO_TRY_DO(co_await server.write("+OK\r\n"));
  CO_TRY(const auto commands, co_await read_until(server, "real\r\n"));
  EXPECT_EQ(commands, concat("PING\r\n", kLogin));
  CO_TRY_DO(co_await server.write("+PONG\r\n+OK\r\n"));
  CO_TRY(const auto answers, co_await read_until(client, "+OK\r\n"));
  EXPECT_EQ(answers, "+PONG\r\n+OK\r\n");
  co_return ok();
}

TEST_F(AdaptersTest, RedisLogsInAndReplaces) {
  use_password(egress::CredentialProtocol::kRedis);
  const auto done = reactor_.run_until_complete(run(serve_redis, redis_conversation));
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_EQ(account_->record.credential, "it@1");
  EXPECT_EQ(account_->record.operations, std::vector<std::string>{"AUTH replaced"});
}

Task<> redis_refusal(io::Stream& client, io::Stream&) {
  CO_TRY(const auto answer, co_await read_until(client, "\r\n"));
  EXPECT_TRUE(answer.starts_with("-ERR atoll:")) << answer;
  EXPECT_FALSE(answer.contains("real"));
  co_return ok();
}

TEST_F(AdaptersTest, FailsClosedWithoutItsCredential) {
  use_password(egress::CredentialProtocol::kRedis);
  credentials_.material.reset();
  const auto done = reactor_.run_until_complete(run(serve_redis, redis_refusal));
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_EQ(account_->record.outcome, egress::Outcome::kDenied);
}

Task<> redis_untouched(io::Stream& client, io::Stream& server) {
  CO_TRY_DO(co_await client.write("AUTH own\r\n"));
  CO_TRY(const auto seen, co_await read_until(server, "\r\n"));
  EXPECT_EQ(seen, "AUTH own\r\n");
  co_return ok();
}

TEST_F(AdaptersTest, PassesWithoutItWhenItsRuleSaysSo) {
  use_password(egress::CredentialProtocol::kRedis);
  session_->own->layers.front().policy.credential_rules.front().fail_open = true;
  credentials_.material.reset();
  const auto done = reactor_.run_until_complete(run(serve_redis, redis_untouched));
  EXPECT_TRUE(done) << done.error().message;
}

Task<> socks_conversation(io::Stream& client, io::Stream& server) {
  CO_TRY(const auto methods, co_await read_until(server, "\x05\x01\x02"));
  CO_TRY_DO(co_await server.write("\x05\x02"));
  CO_TRY(const auto login, co_await read_until(server, "real"));
  EXPECT_EQ(login, "\x01\x03"s + "app\x04"s + "real");
  CO_TRY_DO(co_await server.write("\x01\x00"s));
  CO_TRY_DO(co_await client.write("\x05\x01\x02"s));
  CO_TRY_DO(co_await read_until(client, "\x05\x02"));
  CO_TRY_DO(co_await client.write("\x01\x01x\x01y"s));
  CO_TRY_DO(co_await read_until(client, "\x01\x00"s));
  const std::string request = "\x05\x01\x00\x03\x01"s + "a\x00\x50"s;
  CO_TRY_DO(co_await client.write(request + "more"));
  CO_TRY(const auto seen, co_await read_until(server, "more"));
  EXPECT_EQ(seen, request + "more");
  co_return ok();
}

TEST_F(AdaptersTest, Socks5LogsIn) {
  use_password(egress::CredentialProtocol::kSocks5);
  const auto done = reactor_.run_until_complete(run(serve_socks5, socks_conversation));
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_EQ(account_->record.operations, std::vector<std::string>{"connect a:80"});
}

Task<> postgres_conversation(io::Stream& client, io::Stream& server) {
  CO_TRY_DO(co_await client.write("\x00\x00\x00\x08\x04\xd2\x16\x2f"s));
  CO_TRY_DO(co_await read_until(client, "N"));
  PostgresStartup startup{.version = 196608};
  startup.set("user", "anybody");
  CO_TRY_DO(co_await client.write(encode(startup)));
  CO_TRY(const auto sent, co_await read_until(server, "database\0anybody\0\0"s));
  EXPECT_TRUE(sent.contains("user\0app\0"s));
  CO_TRY_DO(co_await server.write(postgres_message('R', postgres_u32(5) + "salt")));
  CO_TRY(const auto login, co_await read_until(server, "md5"));
  EXPECT_FALSE(login.contains("real"));
  CO_TRY_DO(
      co_await server.write(postgres_message('R', postgres_u32(0)) + postgres_message('Z', "I")));
  CO_TRY(const auto answer, co_await read_until(client, "I"));
  EXPECT_EQ(answer, postgres_message('R', postgres_u32(0)) + postgres_message('Z', "I"));
  co_return ok();
}

TEST_F(AdaptersTest, PostgresLogsIn) {
  use_password(egress::CredentialProtocol::kPostgres);
  const auto done = reactor_.run_until_complete(run(serve_postgres, postgres_conversation));
  EXPECT_TRUE(done) << done.error().message;
}

// A Git server, as far as it matters.
class GitServer final : public ssh::ServerHandler {
 public:
  std::string key_blob;
  std::string user;
  bool let_in(std::string_view, std::string_view blob) override { return blob == key_blob; }
  void logged_in(std::string_view name) override { user = name; }
  Task<> serve_session(ssh::Channel& channel) override {
    CO_TRY(const auto request, co_await channel.next_request());
    channel.answer(request.kind == ssh::ChannelRequest::Kind::kExec);
    CO_TRY_DO(co_await channel.write(concat("ran ", request.text)));
    CO_TRY_DO(co_await channel.write_error("warned"));
    channel.send_exit({.status = 4, .signal = {}});
    co_return co_await channel.flush();
  }
};

struct GitOutcome {
  std::string output;
  std::string error_output;
  std::optional<ssh::Exit> exit;
};

Task<std::string> drain(ssh::Channel& channel, bool error) {
  std::string all;
  std::string buffer(4096, '\0');
  for (;;) {
    CO_TRY(const std::size_t got,
           co_await (error ? channel.read_error(buffer) : channel.read(buffer)));
    if (got == 0) {
      co_return all;
    }
    all.append(buffer, 0, got);
  }
}

Task<GitOutcome> clone(ssh::Client& client) {
  CO_TRY(const auto channel, co_await client.open_session());
  CO_TRY_DO(co_await channel->request(
      {.kind = ssh::ChannelRequest::Kind::kExec, .text = "git-upload-pack 'it'"}));
  GitOutcome outcome;
  CO_TRY(outcome.output, co_await drain(*channel, false));
  CO_TRY(outcome.error_output, co_await drain(*channel, true));
  CO_TRY_DO(co_await channel->wait_closed());
  outcome.exit = channel->exit();
  co_return std::move(outcome);
}

class SshProxyTest : public AdaptersTest {
 protected:
  SshProxyTest() {
    server_.key_blob = ssh::public_half(stored_key_, {})->blob;
    auto material = std::make_shared<egress::Material>();
    material->ssh_private_key_pem = stored_key_;
    use(egress::CredentialProtocol::kSsh,
        {.kind = egress::ProjectionKind::kSshProxy,
         .upstream_username = "git",
         .known_hosts = {concat("server.example ",
                                ssh::format_public_key(*ssh::public_half(server_key_, {})))}},
        std::move(material));
  }

  egress::Projection& projection() { return session_->own->bindings.front().projection; }

  // The sandbox's client: has a key that means nothing upstream.
  Task<GitOutcome> clone_through() {
    Pair inside = make_pair();
    Pair outside = make_pair();
    upstreams_.next = std::move(outside.near);
    Scope scope{co_await current_context()};
    scope.on_error([](const char*, const Error&) {});
    scope.spawn("adapter", serve_ssh(surroundings_, connection(std::move(inside.far))));
    scope.spawn("server",
                ssh::serve(reactor_, std::move(outside.far), {.host_key = server_key_}, server_));
    const std::string host_key =
        *ssh::derive_host_key("a key that nobody can guess of sandbox-1", "ssh host key");
    ssh::ClientOptions options{
        .host = "server.example",
        .user = "anybody",
        .private_key = inside_key_,
        .known_hosts = *ssh::KnownHosts::parse(
            {concat("server.example ", ssh::format_public_key(*ssh::public_half(host_key, {})))})};
    auto client =
        co_await ssh::Client::connect(reactor_, std::move(inside.near), std::move(options));
    Result<GitOutcome> outcome = fail(Code::kUnknown, "");
    if (client) {
      scope.spawn("client", (*client)->run());
      outcome = co_await with_deadline(std::chrono::seconds{20}, clone(**client));
    } else {
      outcome = fail(client.error());
    }
    (void)co_await scope.cancel_and_join();
    co_return std::move(outcome);
  }

  std::string server_key_ = *ssh::make_host_key();
  std::string stored_key_ = *ssh::make_host_key();
  std::string inside_key_ = *ssh::make_host_key();
  GitServer server_;
};

TEST_F(SshProxyTest, RunsCommandsUpstreamWithTheStoredKey) {
  const auto outcome = reactor_.run_until_complete(clone_through());
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->output, "ran git-upload-pack 'it'");
  EXPECT_EQ(outcome->error_output, "warned");
  ASSERT_TRUE(outcome->exit);
  EXPECT_EQ(outcome->exit->status, 4);
  EXPECT_EQ(server_.user, "git");
  EXPECT_EQ(account_->record.operations, std::vector<std::string>{"exec git-upload-pack 'it'"});
}

TEST_F(SshProxyTest, AServerThatIsNotKnownGetsNoLogin) {
  projection().known_hosts = {concat(
      "server.example ", ssh::format_public_key(*ssh::public_half(*ssh::make_host_key(), {})))};
  const auto outcome = reactor_.run_until_complete(clone_through());
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_TRUE(outcome->error_output.starts_with("atoll: the host key")) << outcome->error_output;
  EXPECT_EQ(outcome->exit->status, 255);
  EXPECT_TRUE(server_.user.empty());
}

TEST_F(SshProxyTest, OnlyListedKeysAreServed) {
  projection().sandbox_public_keys = {ssh::format_public_key(*ssh::public_half(stored_key_, {}))};
  EXPECT_FALSE(reactor_.run_until_complete(clone_through()));
  projection().sandbox_public_keys = {ssh::format_public_key(*ssh::public_half(inside_key_, {}))};
  EXPECT_TRUE(reactor_.run_until_complete(clone_through()));
}

}  // namespace
}  // namespace atl::proxy::adapters
