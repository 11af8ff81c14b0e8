// A proxy between the two networks of test_network.h, with everything it asks in the test's hands.
#pragma once

#include <deque>

#include "base/json.h"
#include "base/scope.h"
#include "egress/dns_message.h"
#include "egress/policy_json.h"
#include "proxy/datagram.h"
#include "proxy/test_network.h"

namespace atl::proxy {

class TestWorld final : public egress::Flows,
                        public egress::Credentials,
                        public egress::Approvals,
                        public egress::Authorities,
                        public egress::Peers,
                        public egress::Openers {
 public:
  void record(const egress::FlowRecord& flow) override {
    records.push_back(flow);
    changed.set();
  }
  Task<egress::MaterialPtr> resolve(egress::RulesPtr, std::string ref) override {
    if (ref != "proxy-login") {
      co_return fail(Code::kNotFound, "no such credential");
    }
    auto material = std::make_shared<egress::Material>();
    material->kind = egress::ProjectionKind::kUsernamePassword;
    material->username = "user";
    material->password = "secret";
    co_return egress::MaterialPtr{std::move(material)};
  }
  Task<bool> ask(egress::ApprovalQuestion question) override {
    questions.push_back(question);
    changed.set();
    if (park) {
      CO_TRY_DO(co_await answered.wait());
    }
    co_return approve;
  }
  Task<std::shared_ptr<const egress::Authority>> authority(std::string) override {
    co_return fail(Code::kNotFound, "none");
  }
  std::optional<std::string> find(const egress::SandboxRules&, std::string_view name) override {
    return name == "db" && has_peer ? std::optional<std::string>{"sb-peer"} : std::nullopt;
  }
  Task<Fd> connect(egress::RulesPtr, std::string, std::uint16_t port) override {
    peer_ports.push_back(port);
    if (!peer) {
      co_return fail(Code::kUnavailable, "nobody listens");
    }
    co_return std::move(peer);
  }
  Task<egress::Opener> find(std::string, egress::Transport, std::uint16_t) override {
    co_return egress::Opener{.pid = 7, .program = "curl"};
  }

  // The latest record for which `wanted` is true, as soon as there is one.
  Task<egress::FlowRecord> wait_for(std::function<bool(const egress::FlowRecord&)> wanted) {
    for (;;) {
      for (const auto& one : records) {
        if (wanted(one)) {
          co_return one;
        }
      }
      changed.clear();
      CO_TRY_DO(co_await changed.wait());
    }
  }
  Task<egress::FlowRecord> wait_for(egress::Outcome outcome, std::string kind = "flow") {
    co_return co_await wait_for([outcome, kind](const egress::FlowRecord& one) {
      return one.outcome == outcome && one.kind == kind;
    });
  }

  Task<> wait_for_question() {
    while (questions.empty()) {
      changed.clear();
      CO_TRY_DO(co_await changed.wait());
    }
    co_return ok();
  }

  std::deque<egress::FlowRecord> records;
  std::deque<egress::ApprovalQuestion> questions;
  std::deque<std::uint16_t> peer_ports;
  Event changed;
  bool approve = false;
  bool park = false;  // questions wait for `answered`
  Event answered;
  bool has_peer = true;
  Fd peer;
};

inline egress::Policy policy_of(std::string_view json) {
  const auto document = Json::parse(json);
  CHECK(document.has_value());
  auto policy = egress::read_policy(*document, "network");
  CHECK(policy.has_value());
  return *std::move(policy);
}

class ProxyTest : public ::testing::Test {
 public:
  static constexpr std::string_view kUpstreamDns = "203.0.113.53:5353";

  ProxyTest() {
    enter_outside();
    inside = std::make_unique<Inside>();
  }

  ProxyOptions options() {
    return {.reactor = reactor,
            .threads = threads,
            .clock = clock,
            .metrics = metrics,
            .flows = world,
            .credentials = world,
            .approvals = world,
            .authorities = world,
            .peers = world,
            .openers = world,
            .open_datagram_socket = [this](std::string) { return datagram_socket(); },
            .handlers = handlers,
            .opened = {*egress::Network::parse("203.0.113.0/24"),
                       *egress::Network::parse("2001:db8::/32")},
            .dns_upstreams = {at(kUpstreamDns)}};
  }
  Task<Fd> datagram_socket() { co_return inside->socket(SOCK_DGRAM); }

  egress::RulesPtr rules(egress::Policy policy) {
    auto made = std::make_shared<egress::SandboxRules>();
    made->sandbox_id = "sb-one";
    made->team_id = "team";
    made->name = "one";
    made->layers.push_back({"sandbox", std::move(policy)});
    made->groups = {"g"};
    made->sandbox_limits = limits;
    return made;
  }
  egress::RulesPtr rules(std::string_view json) { return rules(policy_of(json)); }

  // Runs `body` beside a proxy that serves the sandbox on `port` (and 53 and UDP of the same).
  void run(egress::RulesPtr first_rules, std::uint16_t port, Task<> body) {
    Proxy made{options()};
    proxy = &made;
    auto result = reactor.run_until_complete(with_deadline(
        std::chrono::seconds{30}, beside(std::move(first_rules), port, std::move(body))));
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    proxy = nullptr;
  }

  io::Reactor reactor;
  io::OffloadPool threads{"test", 1, 16};
  SystemWallClock clock;
  Metrics metrics;
  TestWorld world;
  Handlers handlers;
  egress::TrafficLimits limits;
  std::unique_ptr<Inside> inside;
  Proxy* proxy = nullptr;

 private:
  Task<> beside(egress::RulesPtr first_rules, std::uint16_t port, Task<> body) {
    Scope scope{co_await current_context()};
    scope.spawn("proxy", proxy->run());
    auto attached =
        proxy->attach(std::move(first_rules), {.tcp = inside->catch_all(SOCK_STREAM, port),
                                               .udp = inside->catch_all(SOCK_DGRAM, port),
                                               .dns = inside->catch_all(SOCK_DGRAM, 53)});
    EXPECT_TRUE(attached);
    auto result = co_await std::move(body);
    CO_TRY_DO(co_await scope.cancel_and_join());
    co_return std::move(result);
  }
};

// A server that sends back what it gets, and counts who came.
class EchoServer {
 public:
  EchoServer(io::Reactor& reactor, std::string_view address) : listener_(reactor, bind(address)) {}

  Task<> run() {
    Scope scope{co_await current_context()};
    for (;;) {
      auto stream = co_await listener_.accept();
      if (!stream) {
        (void)co_await scope.cancel_and_join();
        co_return fail(std::move(stream).error());
      }
      ++connections;
      scope.spawn("echo", echo(*std::move(stream)));
    }
  }
  unsigned connections = 0;
  std::string seen;
  std::string greeting;

 private:
  static Fd bind(std::string_view address) {
    const Endpoint endpoint = at(address);
    auto fd = io::Listener::bind_tcp(endpoint.address.text(), endpoint.port);
    CHECK(fd.has_value());
    return *std::move(fd);
  }
  Task<> echo(std::unique_ptr<io::FdStream> stream) {
    if (!greeting.empty()) {
      CO_TRY_DO(co_await stream->write(greeting));
    }
    for (;;) {
      auto bytes = co_await read_some(*stream);
      if (!bytes || bytes->empty()) {
        (void)stream->finish_writing();
        co_return ok();
      }
      seen += seen.size() < 4096 ? *bytes : "";
      CO_TRY_DO(co_await stream->write(*bytes));
    }
  }
  io::Listener listener_;
};

// An upstream resolver with a table. Over UDP answers of "big." names are cut short.
class TestDns {
 public:
  TestDns(io::Reactor& reactor, std::string_view address)
      : endpoint_(at(address)), udp_(reactor, bind(endpoint_)), tcp_(reactor, listen(endpoint_)) {}

  Task<> run() {
    Scope scope{co_await current_context()};
    scope.spawn("tcp", run_tcp());
    auto ended = co_await run_udp();
    (void)co_await scope.cancel_and_join();
    co_return ended;
  }

  std::map<std::string, std::vector<std::string>> table;
  std::uint32_t ttl_seconds = 60;
  std::vector<std::string> asked;
  unsigned over_tcp = 0;

 private:
  static Fd bind(const Endpoint& endpoint) {
    Fd fd{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    const SocketAddress address = socket_address(endpoint);
    CHECK(::bind(fd.get(), address.get(), address.size) == 0);
    return fd;
  }
  static Fd listen(const Endpoint& endpoint) {
    auto fd = io::Listener::bind_tcp(endpoint.address.text(), endpoint.port);
    CHECK(fd.has_value());
    return *std::move(fd);
  }
  std::string answer(std::string_view message, bool udp) {
    auto question = egress::read_dns_question(message);
    CHECK(question.has_value());
    asked.push_back(question->name);
    std::vector<egress::DnsRecord> records;
    const auto found = table.find(question->name);
    for (const auto& text : found == table.end() ? std::vector<std::string>{} : found->second) {
      const auto address = egress::Address::parse(text);
      const bool v4 = address->is_v4();
      if (v4 == (question->type == egress::DnsType::kA)) {
        records.push_back({.name = question->name,
                           .type = question->type,
                           .ttl_seconds = ttl_seconds,
                           .address = *address});
      }
    }
    const bool cut = udp && question->name.starts_with("big.");
    return egress::write_dns_answer(
        *question, found == table.end() ? egress::DnsCode::kNameError : egress::DnsCode::kNoError,
        records, cut ? 40 : 4096);
  }
  Task<> run_udp() {
    char buffer[4096];
    for (;;) {
      SocketAddress from;
      const ssize_t got =
          ::recvfrom(udp_.fd.get(), buffer, sizeof buffer, 0, from.get(), &from.size);
      if (got < 0) {
        CO_TRY_DO(co_await udp_.watch.readable());
        continue;
      }
      const std::string reply = answer({buffer, static_cast<std::size_t>(got)}, true);
      ::sendto(udp_.fd.get(), reply.data(), reply.size(), 0, from.get(), from.size);
    }
  }
  Task<> run_tcp() {
    for (;;) {
      CO_TRY(auto stream, co_await tcp_.accept());
      char head[2];
      CO_TRY_DO(co_await io::read_exactly(*stream, head));
      std::string message(static_cast<std::size_t>(static_cast<unsigned char>(head[1])), '\0');
      CO_TRY_DO(co_await io::read_exactly(*stream, message));
      ++over_tcp;
      const std::string reply = answer(message, false);
      const char length[2] = {static_cast<char>(reply.size() >> 8),
                              static_cast<char>(reply.size())};
      CO_TRY_DO(co_await stream->write({length, 2}, reply));
    }
  }

  Endpoint endpoint_;
  Socket udp_;
  io::Listener tcp_;
};

}  // namespace atl::proxy
