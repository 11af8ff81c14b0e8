#include "http/server_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/strings.h"

namespace atl::http {
namespace {

using namespace std::chrono_literals;

// How much of a request body that nobody read is worth reading to keep the connection.
constexpr std::size_t kMaxDrainBytes = std::size_t{256} * 1024;
constexpr std::size_t kMaxLingerBytes = std::size_t{1024} * 1024;
constexpr Duration kLingerTime = 2s;
constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string peer_name(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  char text[INET6_ADDRSTRLEN] = "";
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return "unknown";
  }
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return concat(text, ":", ntohs(v4.sin_port));
  }
  if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    return concat("[", text, "]:", ntohs(v6.sin6_port));
  }
  return "unix";
}

Http1Wire::Options wire_options(ServerCore& core) {
  return {.role = Role::kRequest,
          .limits = {core.limits.header_bytes, core.limits.header_count},
          .stall_timeout = core.limits.stall_timeout,
          .received_bytes = &core.metrics.received_bytes,
          .sent_bytes = &core.metrics.sent_bytes};
}

}  // namespace

ServerConnection::ServerConnection(ServerCore& core, std::unique_ptr<io::Stream> stream, int fd)
    : core_(core),
      stream_(std::move(stream)),
      fd_(fd),
      wire_(*stream_, wire_options(core)),
      peer_(peer_name(fd)) {}

void ServerConnection::close_if_idle() {
  if (http2_ != nullptr) {
    http2_->drain();
  } else if (idle_ != nullptr) {
    idle_->cancel();
  } else if (exchange_ != nullptr && exchange_->websocket() != nullptr) {
    exchange_->websocket()->go_away();
  }
}

Task<> ServerConnection::serve() {
  CO_TRY(const bool arrived, co_await wait_for_bytes(core_.limits.header_timeout));
  if (!arrived) {
    co_return ok();
  }
  const auto preface =
      co_await with_deadline(core_.limits.header_timeout, wire_.begins_with(kHttp2Preface));
  if (preface && *preface) {
    co_return co_await serve_http2();
  }
  co_return co_await serve_http1();
}

Task<> ServerConnection::serve_http2() {
  Http2Connection connection{core_, *stream_, peer_, wire_.take_input()};
  http2_ = &connection;
  auto served = co_await connection.serve();
  http2_ = nullptr;
  CO_TRY_DO(std::move(served));
  co_return co_await linger();
}

Task<> ServerConnection::serve_http1() {
  for (bool first = true;; first = false) {
    CO_TRY(const bool arrived, co_await next_request(first));
    if (!arrived) {
      co_return ok();
    }
    CO_TRY(const bool again, co_await serve_request());
    if (!again) {
      co_return ok();
    }
  }
}

Task<bool> ServerConnection::wait_for_bytes(Duration timeout) {
  if (wire_.has_input()) {
    co_return true;
  }
  if (core_.draining) {
    co_return false;
  }
  TaskContext& outer = co_await current_context();
  CancelState cancel{outer.cancel};
  TaskContext inner{outer.loop, &cancel};
  idle_ = &cancel;
  auto got = co_await with_deadline(timeout, wire_.fill_when_readable()).under(inner);
  idle_ = nullptr;
  co_return got && *got > 0;
}

Task<bool> ServerConnection::next_request(bool first) {
  wire_.parser().begin();
  const auto wait = first ? core_.limits.header_timeout : core_.limits.idle_timeout;
  CO_TRY(const bool arrived, co_await wait_for_bytes(wait));
  if (!arrived) {
    co_return false;
  }
  head_began_ = core_.reactor.now();
  auto head = co_await with_deadline(core_.limits.header_timeout, wire_.read_head());
  if (head) {
    co_return *head;
  }
  if (wire_.refusal()) {
    core_.metrics.refusals.add();
    CO_TRY_DO(co_await refuse(*wire_.refusal()));
  } else if (head.error().code == Code::kDeadlineExceeded) {
    CO_TRY_DO(co_await refuse({408, "the request head did not arrive in time"}));
  }
  co_return false;
}

Task<> ServerConnection::refuse(Refusal refusal) {
  const auto response = error_response(refusal.status, "bad_request", refusal.reason);
  const std::string head = concat(
      "HTTP/1.1 ", refusal.status, " ", status_text(refusal.status), "\r\n", core_.date_line(),
      "content-type: application/json\r\ncontent-length: ", response.body.size(),
      "\r\nconnection: close\r\n\r\n");
  core_.metrics.count_response(refusal.status);
  CO_TRY_DO(co_await wire_.write(head, response.body));
  co_return co_await linger();
}

Task<bool> ServerConnection::serve_request() {
  const TaskContext& here = co_await current_context();
  Trace trace{head_began_};
  trace.mark(Step::kRead, core_.reactor.now());
  TaskContext traced{here.loop, here.cancel, &trace};
  ServerExchange exchange{core_, wire_, *stream_, peer_, trace, fd_};
  exchange_ = &exchange;
  const auto handled = co_await core_.handler(exchange).under(traced);
  exchange_ = nullptr;
  core_.metrics.observe(trace);
  if (here.cancel->cancelled()) {
    co_return fail(Code::kCancelled, "the server stops");
  }
  if (exchange.websocket() != nullptr) {
    CO_TRY_DO(co_await end_websocket(*exchange.websocket(), !handled));
    co_return false;
  }
  if (!exchange.started()) {
    CO_TRY_DO(co_await answer_failure(exchange, handled));
  } else if (!exchange.finished()) {
    // The client must not take half an answer for a whole one.
    if (exchange.ends_with_connection()) {
      reset_on_close();
    }
    co_return false;
  }
  if (exchange.keep_alive()) {
    auto drained = co_await wire_.discard_body(kMaxDrainBytes);
    if (drained && *drained) {
      co_return true;
    }
  }
  if (!wire_.parser().done() || wire_.has_input() || has_unread_bytes()) {
    CO_TRY_DO(co_await linger());
  }
  co_return false;
}

Task<> ServerConnection::end_websocket(WebSocketLink& link, bool failed) {
  core_.metrics.websockets_open.add(-1);
  if (link.broken) {
    co_return ok();
  }
  if (!link.close_sent) {
    const std::uint16_t code = link.going_away ? 1001 : failed ? 1011 : 1000;
    const auto frame = encode_websocket_close(WebSocketRole::kServer, code, {});
    CO_TRY_DO(co_await with_deadline(kLingerTime, stream_->write(frame)));
  }
  co_return co_await linger();
}

// Closing a socket that still holds input makes the kernel reset it.
bool ServerConnection::has_unread_bytes() const {
  char byte;
  return ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

Task<> ServerConnection::answer_failure(ServerExchange& exchange, const Result<>& handled) {
  co_return co_await exchange.respond(failure_response(exchange.request(), handled));
}

Task<> ServerConnection::linger() {
  CO_TRY_DO(stream_->finish_writing());
  auto drained = co_await with_deadline(kLingerTime, discard_input());
  if (!drained && drained.error().code == Code::kCancelled) {
    co_return std::move(drained);
  }
  co_return ok();
}

Task<> ServerConnection::discard_input() {
  char scrap[std::size_t{16} * 1024];
  for (std::size_t total = 0; total < kMaxLingerBytes;) {
    CO_TRY(const auto got, co_await stream_->read(scrap));
    if (got == 0) {
      break;
    }
    total += got;
  }
  co_return ok();
}

void ServerConnection::reset_on_close() {
  const ::linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace atl::http
