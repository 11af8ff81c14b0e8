#include "proxy/dns/exchange.h"

#include <cerrno>

#include "base/random.h"
#include "base/scope.h"
#include "base/strings.h"
#include "proxy/connector.h"
#include "proxy/socket.h"

namespace atl::proxy::dns {
namespace {

using egress::DnsAnswer;
using egress::DnsQuestion;

constexpr std::chrono::milliseconds kUdpTime{1500};
constexpr std::chrono::seconds kTcpTime{3};
// Answers to other questions before ours: somebody guesses.
constexpr unsigned kMaxStrangers = 64;

Task<DnsAnswer> ask_udp(io::Reactor& reactor, Endpoint server, DnsQuestion question) {
  Fd fd{::socket(server.address.is_v4() ? AF_INET : AF_INET6,
                 SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  const SocketAddress address = socket_address(server);
  if (!fd || ::connect(fd.get(), address.get(), address.size) != 0) {
    co_return fail_errno(concat("asking ", server.text()));
  }
  Socket socket{reactor, std::move(fd)};
  const std::string asked = egress::write_dns_question(question);
  CO_TRY_DO(co_await send_all(socket, asked));
  for (unsigned strangers = 0; strangers < kMaxStrangers; ++strangers) {
    CO_TRY(const std::string message, co_await receive_some(socket, egress::kMaxDnsMessageBytes));
    auto answer = read_matching_answer(message, question);
    if (answer) {
      co_return *std::move(answer);
    }
  }
  co_return fail(Code::kUnavailable, concat("no answer of ", server.text(), " can be trusted"));
}

Task<std::string> receive_exactly(Socket& socket, std::size_t size) {
  std::string bytes;
  while (bytes.size() < size) {
    CO_TRY(const std::string more, co_await receive_some(socket, size - bytes.size()));
    if (more.empty()) {
      co_return fail(Code::kUnavailable, "a DNS server closed the connection");
    }
    bytes += more;
  }
  co_return bytes;
}

Task<DnsAnswer> ask_tcp(io::Reactor& reactor, Endpoint server, DnsQuestion question) {
  std::vector<Endpoint> only{server};
  CO_TRY(Connected connected, co_await connect_first(reactor, std::move(only)));
  Socket socket{reactor, std::move(connected.fd)};
  const std::string message = egress::write_dns_question(question);
  std::string framed;
  framed += static_cast<char>(message.size() >> 8);
  framed += static_cast<char>(message.size());
  framed += message;
  CO_TRY_DO(co_await send_all(socket, framed));
  CO_TRY(const std::string head, co_await receive_exactly(socket, 2));
  const std::size_t size = static_cast<std::size_t>(static_cast<std::uint8_t>(head[0])) << 8 |
                           static_cast<std::uint8_t>(head[1]);
  CO_TRY(const std::string answer, co_await receive_exactly(socket, size));
  co_return read_matching_answer(answer, question);
}

}  // namespace

Result<DnsAnswer> read_matching_answer(std::string_view message, const DnsQuestion& question) {
  TRY(DnsAnswer answer, egress::read_dns_answer(message));
  if (answer.id != question.id || answer.name != question.name || answer.type != question.type) {
    return fail(Code::kInvalidArgument, "an answer to another question");
  }
  return answer;
}

Task<DnsAnswer> ask_server(io::Reactor& reactor, Endpoint server, DnsQuestion question) {
  const std::string id = random_bytes(2);
  question.id = static_cast<std::uint16_t>(static_cast<std::uint8_t>(id[0]) << 8 |
                                           static_cast<std::uint8_t>(id[1]));
  CO_TRY(DnsAnswer answer, co_await with_deadline(kUdpTime, ask_udp(reactor, server, question)));
  if (!answer.truncated) {
    co_return answer;
  }
  co_return co_await with_deadline(kTcpTime, ask_tcp(reactor, server, question));
}

}  // namespace atl::proxy::dns
