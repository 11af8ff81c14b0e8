// Everything that serves, and how it stops: drained when asked to, at once when a part fails.
#pragma once

#include <csignal>

#include "base/log.h"
#include "http/server.h"
#include "io/reactor.h"

namespace atl::daemon {

class Serving {
 public:
  Serving(TaskContext& context, http::Server& server) : server_(server), scope_(context) {
    scope_.on_error([this](const char* task, const Error& error) {
      LOG_ERROR("a part of the API failed", {"part", task}, {"error", error});
      failure_ = fail(error);
      over_.set();
    });
  }

  void add(const char* name, Task<> task) { scope_.spawn(name, std::move(task)); }

  Task<> run(io::Reactor& reactor) {
    scope_.spawn("http", serve_http());
    scope_.spawn("signals", wait_for_signal(reactor));
    (void)co_await wait(over_);
    server_.drain();
    if (!co_await with_deadline(kDrainTime, wait(drained_))) {
      LOG_WARN("requests are still under way; not waiting for them any longer");
    }
    (void)co_await scope_.cancel_and_join();
    co_return failure_;
  }

 private:
  static constexpr std::chrono::seconds kDrainTime{10};

  static Task<> wait(Event& event) { co_return co_await event.wait(); }

  Task<> serve_http() {
    auto served = co_await server_.run();
    drained_.set();
    co_return served;
  }

  Task<> wait_for_signal(io::Reactor& reactor) {
    io::SignalWatch signals{reactor, {SIGTERM}};
    CO_TRY_DO(co_await signals.next());
    over_.set();
    co_return ok();
  }

  http::Server& server_;
  Event over_;
  Event drained_;
  Result<> failure_;
  Scope scope_;
};

}  // namespace atl::daemon
