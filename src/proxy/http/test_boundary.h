// For tests: a sandbox's surroundings without a sandbox. Clients and servers are real ones on
// socket pairs; rules, credentials and answers of people are what the test says.
#pragma once

#include <sys/socket.h>

#include <deque>
#include <functional>
#include <map>

#include "base/scope.h"
#include "base/strings.h"
#include "proxy/http/memory.h"
#include "proxy/http/serve.h"
#include "tls/mint.h"
#include "tls/stream.h"

namespace atl::proxy::http {

using StreamPtr = std::unique_ptr<io::Stream>;

inline std::pair<StreamPtr, StreamPtr> socket_pair(io::Reactor& reactor) {
  int fds[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
  return {std::make_unique<io::FdStream>(reactor, Fd{fds[0]}),
          std::make_unique<io::FdStream>(reactor, Fd{fds[1]})};
}

class TestSession final : public Session {
 public:
  egress::RulesPtr rules() const override { return rules_; }
  std::shared_ptr<egress::SandboxRules> rules_ = std::make_shared<egress::SandboxRules>();
};

class TestBoundary final : public Upstreams,
                           public egress::Credentials,
                           public egress::Approvals,
                           public egress::Authorities {
 public:
  using Server = std::function<Task<>(TestBoundary&, StreamPtr)>;

  TestBoundary() {
    session->rules_->sandbox_id = "sb-1";
    session->rules_->layers.push_back({"sandbox", {}});
    account->record.id = "flow-1";
    account->record.sandbox_id = "sb-1";
    flow.name = "api.test";
    flow.address = *egress::Address::parse("203.0.113.7");
    flow.port = 80;
    flow.protocol = egress::AppProtocol::kHttp;
    first.protocol = egress::AppProtocol::kHttp;
  }

  egress::Policy& policy() { return session->rules_->layers.front().policy; }

  void use_tls() {
    flow.port = 443;
    flow.protocol = first.protocol = egress::AppProtocol::kTls;
    first.hello = egress::ClientHello{.server_name = flow.name, .alpn = {}};
    server_authority = *tls::mint_authority({.common_name = "servers"});
    server_leaf = *tls::mint_leaf(server_authority, {.names = {flow.name}});
    surroundings.upstream_roots_pem = server_authority.certificate_pem;
  }

  // A connection from inside, as the proxy's accept loop would hand it over.
  Connection connection(StreamPtr client) {
    return {.client = std::move(client),
            .flow = flow,
            .first = first,
            .session = session,
            .account = account};
  }

  Task<StreamPtr> dial(std::shared_ptr<Session>, egress::Flow wanted,
                       std::shared_ptr<FlowAccount>) override {
    ++dials;
    dialled_name = wanted.name;
    auto [ours, theirs] = socket_pair(reactor);
    servers->spawn("server", server(*this, std::move(theirs)));
    co_return std::move(ours);
  }
  Task<egress::MaterialPtr> resolve(egress::RulesPtr, std::string ref) override {
    const auto found = materials.find(ref);
    if (found == materials.end()) {
      co_return fail(Code::kUnavailable, "the source does not answer");
    }
    co_return found->second;
  }
  Task<bool> ask(egress::ApprovalQuestion question) override {
    questions.push_back(question.what);
    co_return approves;
  }
  Task<std::shared_ptr<const egress::Authority>> authority(std::string) override {
    co_return std::make_shared<egress::Authority>(sandbox_authority.certificate_pem,
                                                  sandbox_authority.key_pem);
  }

  io::Reactor reactor;
  io::OffloadPool threads{"test", 1, 16};
  SystemWallClock clock;
  tls::Identity sandbox_authority = *tls::mint_authority({.common_name = "sandbox"});
  tls::Identity server_authority;
  tls::Identity server_leaf;
  std::shared_ptr<TestSession> session = std::make_shared<TestSession>();
  std::shared_ptr<FlowAccount> account = std::make_shared<FlowAccount>();
  egress::Flow flow;
  egress::Classified first;
  Server server;
  Scope* servers = nullptr;
  int dials = 0;
  std::string dialled_name;
  std::map<std::string, egress::MaterialPtr> materials;
  std::vector<std::string> questions;
  bool approves = false;
  Surroundings surroundings{reactor, threads, clock, *this, *this, *this, *this, {}, nullptr};
};

// A server that speaks HTTP/1 by heart: whenever it has read a request up to its empty line (or
// `until`), it says its next line, or the last one again; then goes on reading.
struct Script {
  std::vector<std::string> replies{"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"};
  std::string until = "\r\n\r\n";
  std::string received;  // by all connections
  bool closes = false;   // after its reply
  std::size_t said = 0;
};

inline Task<> play(io::Stream& stream, Script& script) {
  std::string pending;
  std::array<char, 65536> buffer;
  for (;;) {
    CO_TRY(const auto got, co_await stream.read(buffer));
    if (got == 0) {
      co_return stream.finish_writing();
    }
    script.received.append(buffer.data(), got);
    pending.append(buffer.data(), got);
    for (auto end = pending.find(script.until); end != std::string::npos;
         end = pending.find(script.until)) {
      pending.erase(0, end + script.until.size());
      const auto reply = script.replies[std::min(script.said++, script.replies.size() - 1)];
      CO_TRY_DO(co_await stream.write(reply));
      if (script.closes) {
        co_return stream.finish_writing();
      }
    }
  }
}

inline Task<> play_plain(StreamPtr stream, Script& script) {
  co_return co_await play(*stream, script);
}

inline Task<> play_secure(TestBoundary& boundary, StreamPtr below, Script& script) {
  auto context =
      *tls::Context::server({.identity = boundary.server_leaf, .protocols = {"http/1.1"}});
  CO_TRY(auto stream, co_await tls::TlsStream::accept(std::move(below), *context));
  auto played = co_await play(*stream, script);
  co_return std::move(played);
}

// Everything until the stream ends.
inline Task<std::string> read_to_end(io::Stream& stream) {
  std::string all;
  std::array<char, 65536> buffer;
  for (;;) {
    const auto got = co_await stream.read(buffer);
    if (!got || *got == 0) {
      co_return all;
    }
    all.append(buffer.data(), *got);
  }
}

// Until `mark` has come `times` times, or the stream ends.
inline Task<std::string> read_marks(io::Stream& stream, std::string mark, int times) {
  std::string all;
  std::array<char, 65536> buffer;
  for (;;) {
    int seen = 0;
    for (auto at = all.find(mark); at != std::string::npos; at = all.find(mark, at + 1)) {
      ++seen;
    }
    if (seen >= times) {
      co_return all;
    }
    const auto got = co_await stream.read(buffer);
    if (!got || *got == 0) {
      co_return all;
    }
    all.append(buffer.data(), *got);
  }
}

// Runs `client` on one end of a connection whose other end is served.
template <class T>
Task<T> with_service(TestBoundary& boundary,
                     std::function<Task<T>(TestBoundary&, StreamPtr)> client) {
  Scope service{co_await current_context()};
  service.on_error([](const char*, const Error&) {});
  Scope servers{co_await current_context()};
  servers.on_error([](const char*, const Error&) {});
  boundary.servers = &servers;
  auto [inside, outside] = socket_pair(boundary.reactor);
  service.spawn("serve", serve(boundary.surroundings, boundary.connection(std::move(outside))));
  auto result =
      co_await with_deadline(std::chrono::seconds{20}, client(boundary, std::move(inside)));
  (void)co_await service.cancel_and_join();
  (void)co_await servers.cancel_and_join();
  co_return std::move(result);
}

inline Task<std::string> send_and_read(StreamPtr stream, std::string bytes) {
  CO_TRY_DO(co_await stream->write(bytes));
  co_return co_await read_to_end(*stream);
}

// What a client gets that sends these bytes and waits for the end of the connection.
inline std::string talk(TestBoundary& boundary, Script& script, std::string bytes) {
  boundary.server = [&script](TestBoundary&, StreamPtr stream) {
    return play_plain(std::move(stream), script);
  };
  auto got = boundary.reactor.run_until_complete(
      with_service<std::string>(boundary, [&bytes](TestBoundary&, StreamPtr stream) {
        return send_and_read(std::move(stream), bytes);
      }));
  return got ? *got : "failed: " + got.error().message;
}

inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

inline int status_of(std::string_view response) {
  return response.size() > 12 ? static_cast<int>(parse_u64(response.substr(9, 3)).value_or(0)) : 0;
}

}  // namespace atl::proxy::http
