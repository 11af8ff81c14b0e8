#include "proxy/dns/listener.h"

#include <cerrno>

#include "base/scope.h"
#include "proxy/allowance.h"
#include "proxy/datagram.h"
#include "proxy/sandbox_session.h"

namespace atl::proxy::dns {
namespace {

constexpr unsigned kMaxDatagramsPerTurn = 32;
constexpr std::chrono::seconds kSilentTime{10};
constexpr std::size_t kMaxQuestionBytes = 4096;

// The socket lives in the loop that spawned this, which is of the same scope and waits for nobody;
// so the descriptor is shared with the answers that are still to be sent.
Task<> answer_one(SandboxSession& session, std::shared_ptr<Fd> socket, Datagram datagram) {
  CO_TRY(const std::string answer,
         co_await session.names().answer(std::move(datagram.bytes),
                                         {.transport = egress::Transport::kUdp,
                                          .source = datagram.source,
                                          .destination = datagram.destination}));
  if (!answer.empty()) {
    send_datagram_from(socket->get(), datagram.destination, datagram.source, answer);
  }
  co_return ok();
}

Task<std::string> receive_message(Socket& socket, std::size_t size) {
  std::string bytes;
  while (bytes.size() < size) {
    CO_TRY(const std::string more, co_await receive_some(socket, size - bytes.size()));
    if (more.empty()) {
      co_return fail(Code::kUnavailable, "the client closed the connection");
    }
    bytes += more;
  }
  co_return bytes;
}

Task<std::string> receive_question(Socket& socket) {
  CO_TRY(const std::string head, co_await receive_message(socket, 2));
  const std::size_t size = static_cast<std::size_t>(static_cast<std::uint8_t>(head[0])) << 8 |
                           static_cast<std::uint8_t>(head[1]);
  if (size > kMaxQuestionBytes) {
    co_return fail(Code::kInvalidArgument, "a question that is too long");
  }
  co_return co_await receive_message(socket, size);
}

}  // namespace

Task<> serve_datagrams(SandboxSession& session, Fd socket) {
  CO_TRY_DO(report_destinations(socket.get()));
  const auto shared = std::make_shared<Fd>(std::move(socket));
  io::FdWatch watch{session.machinery().options.reactor, shared->get()};
  std::vector<char> buffer(kMaxQuestionBytes);
  for (;;) {
    unsigned received = 0;
    for (; received < kMaxDatagramsPerTurn; ++received) {
      CO_TRY(auto datagram, receive_datagram(shared->get(), buffer));
      if (!datagram) {
        break;
      }
      session.spawn("dns answer", answer_one(session, shared, *std::move(datagram)));
    }
    CO_TRY_DO(co_await watch.readable());
  }
}

Task<> serve_connection(std::shared_ptr<SandboxSession> session, Fd client) {
  auto source = peer_endpoint(client.get());
  auto destination = local_endpoint(client.get());
  if (!source || !destination) {
    co_return ok();
  }
  const Place place{session->allowance(), session->team()};
  Socket socket{session->machinery().options.reactor, std::move(client)};
  for (;;) {
    auto question = co_await with_deadline(kSilentTime, receive_question(socket));
    if (!question) {
      co_return ok();
    }
    CO_TRY(const std::string answer,
           co_await session->names().answer(*std::move(question),
                                            {.transport = egress::Transport::kTcp,
                                             .source = *source,
                                             .destination = *destination}));
    std::string framed;
    framed += static_cast<char>(answer.size() >> 8);
    framed += static_cast<char>(answer.size());
    framed += answer;
    auto sent = co_await with_deadline(kSilentTime, send_all(socket, framed));
    if (!sent) {
      co_return ok();
    }
  }
}

}  // namespace atl::proxy::dns
