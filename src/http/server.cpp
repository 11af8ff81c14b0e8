// Accepting, the cap on connections, and draining. A full server stops accepting: clients wait in
// the kernel's backlog instead of being turned away.
#include "http/server.h"

#include <unordered_set>

#include "base/log.h"
#include "http/server_connection.h"
#include "http/server_tls.h"

namespace atl::http {

using namespace std::chrono_literals;

namespace {
// After so many connections in a row the loop gets to do something else.
constexpr unsigned kAcceptsPerTurn = 64;
}  // namespace

struct Server::Impl {
  Impl(io::Reactor& reactor, Fd listening, Handler handler, ServerLimits limits, Metrics& metrics,
       ServerOptions options)
      : core(reactor, std::move(handler), limits, metrics, options),
        listener(std::make_unique<io::Listener>(reactor, std::move(listening))),
        port(listener->port()) {
    core.metrics.connections_max.set(static_cast<std::int64_t>(limits.connections));
  }

  Task<> run();
  Task<> accept_connections(Scope& scope);
  Task<> serve(std::unique_ptr<io::FdStream> stream);
  // Null when the client did not complete the TLS handshake.
  Task<std::unique_ptr<io::Stream>> open(std::unique_ptr<io::FdStream> stream);
  void drain();

  ServerCore core;
  std::unique_ptr<io::Listener> listener;
  std::uint16_t port;
  CancelState* accepting = nullptr;
  Event slot_free;
  std::unordered_set<ServerConnection*> connections;
  std::unordered_set<CancelState*> handshakes;
};

Task<> Server::Impl::run() {
  TaskContext& outer = co_await current_context();
  Scope scope{outer};
  if (!core.draining) {
    CancelState cancel{outer.cancel};
    TaskContext inner{outer.loop, &cancel};
    accepting = &cancel;
    (void)co_await accept_connections(scope).under(inner);  // ends only by cancellation
    accepting = nullptr;
  }
  const bool cancelled = outer.cancel->cancelled();
  listener.reset();  // from now on clients are refused by the kernel
  CO_TRY_DO(co_await scope.join());
  if (cancelled) {
    co_return fail(Code::kCancelled, "cancelled");
  }
  co_return ok();
}

Task<> Server::Impl::accept_connections(Scope& scope) {
  bool failing = false;
  for (unsigned accepted = 1;; ++accepted) {
    while (scope.running() >= core.limits.connections) {
      slot_free.clear();
      CO_TRY_DO(co_await slot_free.wait());
    }
    if (accepted % kAcceptsPerTurn == 0) {
      CO_TRY_DO(co_await sleep_for(Duration::zero()));
    }
    auto stream = co_await listener->accept();
    if (stream) {
      failing = false;
      scope.spawn("http connection", serve(*std::move(stream)));
      continue;
    }
    if (stream.error().code == Code::kCancelled) {
      co_return fail(std::move(stream).error());
    }
    // Out of descriptors, most likely. Nothing tells when one is free again, so look later.
    if (!std::exchange(failing, true)) {
      LOG_WARN("cannot accept connections", {"error", stream.error()});
    }
    CO_TRY_DO(co_await sleep_for(100ms));
  }
}

Task<> Server::Impl::serve(std::unique_ptr<io::FdStream> stream) {
  core.metrics.connections.add();
  core.metrics.connections_open.add(1);
  const int fd = stream->fd();
  auto opened = co_await open(std::move(stream));
  if (opened && *opened) {
    ServerConnection connection{core, *std::move(opened), fd};
    connections.insert(&connection);
    const auto served = co_await connection.serve();
    if (!served) {
      LOG_DEBUG("connection ended", {"error", served.error()});
    }
    connections.erase(&connection);
  }
  core.metrics.connections_open.add(-1);
  slot_free.set();
  co_return ok();
}

Task<std::unique_ptr<io::Stream>> Server::Impl::open(std::unique_ptr<io::FdStream> stream) {
  if (core.tls == nullptr) {
    co_return std::move(stream);
  }
  TaskContext& outer = co_await current_context();
  CancelState cancel{outer.cancel};
  TaskContext inner{outer.loop, &cancel};
  handshakes.insert(&cancel);
  auto secured =
      co_await with_deadline(core.limits.header_timeout, secure(std::move(stream), *core.tls))
          .under(inner);
  handshakes.erase(&cancel);
  if (!secured) {
    core.metrics.tls_failures.add();
    LOG_DEBUG("TLS handshake failed", {"error", secured.error()});
    co_return nullptr;
  }
  core.metrics.tls_handshakes.add();
  co_return std::move(secured);
}

void Server::Impl::drain() {
  core.draining = true;
  core.stops.set();
  if (accepting != nullptr) {
    accepting->cancel();
  }
  for (CancelState* handshake : std::vector(handshakes.begin(), handshakes.end())) {
    handshake->cancel();
  }
  for (ServerConnection* connection : std::vector(connections.begin(), connections.end())) {
    connection->close_if_idle();
  }
}

Server::Server(io::Reactor& reactor, Fd listening, Handler handler, ServerLimits limits,
               Metrics& metrics, ServerOptions options)
    : impl_(std::make_unique<Impl>(reactor, std::move(listening), std::move(handler), limits,
                                   metrics, options)) {}
Server::~Server() = default;
Task<> Server::run() {
  return impl_->run();
}
void Server::drain() {
  impl_->drain();
}
std::uint16_t Server::port() const {
  return impl_->port;
}

}  // namespace atl::http
