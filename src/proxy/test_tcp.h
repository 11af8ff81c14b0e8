// Two servers and a resolver outside, a proxy, and a sandbox that talks to them over TCP.
#pragma once

#include "proxy/test_proxy.h"

namespace atl::proxy {

using egress::Outcome;

inline constexpr std::string_view kAllowAll = R"({"mode":"allow-all"})";
inline constexpr std::string_view kBlockAll = R"({"mode":"block-all"})";
inline constexpr std::string_view kOneName = R"({"mode":"block-all","egress":{"trafficRules":[
  {"name":"good","action":"allow","domains":["good.example"]}]}})";

inline constexpr std::string_view kCareful = R"({"mode":"block-all","egress":{"trafficRules":[
    {"name":"careful","action":"ask","cidrs":["203.0.113.0/24"]}]}})";

inline std::string counted(std::size_t width, const std::string& bytes) {
  std::string out;
  for (std::size_t i = width; i-- > 0;) {
    out += static_cast<char>(bytes.size() >> (8 * i));
  }
  return out + bytes;
}

inline std::string hello(const std::string& name) {
  using namespace std::string_literals;
  const std::string sni = "\0\0"s + counted(2, counted(2, "\0"s + counted(2, name)));
  const std::string body = "\3\3"s + std::string(32, 'r') + "\0"s + counted(2, "\x13\x01"s) +
                           counted(1, "\0"s) + counted(2, name.empty() ? ""s : sni);
  return "\x16\3\1"s + counted(2, "\1"s + counted(3, body));
}

class TcpTest : public ProxyTest {
 public:
  EchoServer good{reactor, "203.0.113.5:8080"};
  EchoServer evil{reactor, "203.0.113.6:8080"};
  TestDns dns{reactor, kUpstreamDns};

  // Runs the test's steps with the servers beside.
  void steps(std::string_view policy, Task<> body) {
    dns.table["good.example"] = {"203.0.113.5"};
    dns.table["evil.example"] = {"203.0.113.6"};
    run(rules(policy), 8080, with_servers(std::move(body)));
  }
  Task<> with_servers(Task<> body) {
    Scope scope{co_await current_context()};
    scope.spawn("good", good.run());
    scope.spawn("evil", evil.run());
    scope.spawn("dns", dns.run());
    auto result = co_await std::move(body);
    CO_TRY_DO(co_await scope.cancel_and_join());
    co_return std::move(result);
  }
  // Connects, sends, ends its side, and gives what came.
  Task<std::string> talk(std::string target, std::string bytes) {
    const auto stream = inside->connect(reactor, target);
    (void)co_await stream->write(bytes);  // it may be refused already
    (void)stream->finish_writing();
    co_return co_await read_to_end(*stream);
  }
  Task<std::string> ask_dns(std::string name, egress::DnsType type);
};

inline Task<std::string> TcpTest::ask_dns(std::string name, egress::DnsType type) {
  Socket socket{reactor, inside->socket(SOCK_DGRAM)};
  const SocketAddress address = mapped_socket_address(at("198.51.100.1:53"));
  CHECK(::connect(socket.fd.get(), address.get(), address.size) == 0);
  egress::DnsQuestion question{.id = 7, .name = std::move(name), .type = type};
  const std::string asked = egress::write_dns_question(question);
  CO_TRY_DO(co_await send_all(socket, asked));
  co_return co_await receive_some(socket, 4096);
}

}  // namespace atl::proxy
