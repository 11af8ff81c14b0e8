#include "proxy/http/h2_link.h"

#include "io/buffer.h"
#include "proxy/http/goodbye.h"
#include "proxy/http/limits.h"

namespace atl::proxy::http {
namespace {

constexpr std::size_t kWriteBytes = std::size_t{64} * 1024;
constexpr unsigned kReadsPerTurn = 16;

Task<> wait_for(Event& event) {
  co_return co_await event.wait();
}

}  // namespace

H2Link::H2Link(H2Role role, std::unique_ptr<io::Stream> stream, std::string key)
    : stream_(std::move(stream)), key_(std::move(key)), session_(role) {
  wake_.set();
}

Task<> H2Link::run(std::shared_ptr<H2Link> self, RequestHandler on_request) {
  Scope writer{co_await current_context()};
  writer.on_error([](const char*, const Error&) {});
  writer.spawn("http2 writer", self->write_loop());
  auto read = co_await self->read_loop(on_request);
  self->ended_ = true;
  if (!self->session_.violated()) {
    self->session_.go_away();
  }
  self->session_.close_streams();
  self->stopping_ = true;
  self->wake_.set();
  (void)co_await with_deadline(kLingerTime, wait_for(self->written_));
  (void)co_await writer.cancel_and_join();
  if (!self->broken_) {
    (void)co_await say_goodbye(*self->stream_);
  }
  co_return std::move(read);
}

Task<> H2Link::read_loop(const RequestHandler& on_request) {
  TaskContext& context = co_await current_context();
  for (unsigned reads = 1; !broken_ && session_.wants_more(); ++reads) {
    if (reads % kReadsPerTurn == 0) {
      CO_TRY_DO(co_await sleep_for(Duration::zero()));
    }
    const auto ready = co_await with_deadline(kIdleTime, stream_->wait_readable());
    if (!ready && ready.error().code == Code::kDeadlineExceeded && session_.is_busy()) {
      continue;
    }
    CO_TRY_DO(ready);
    // Only now: an idle connection holds no buffer.
    const io::Buffer buffer;
    CO_TRY(const auto got, co_await stream_->read(buffer.span()));
    if (got == 0) {
      co_return ok();
    }
    auto fed = session_.feed({buffer.data(), got}, context.loop->now());
    for (auto& stream : session_.take_requests()) {
      on_request(std::move(stream));
    }
    if (session_.has_output()) {
      wake_.set();
    }
    CO_TRY_DO(std::move(fed));
  }
  co_return ok();
}

Task<> H2Link::write_loop() {
  auto written = co_await write_all();
  written_.set();
  co_return std::move(written);
}

Task<> H2Link::write_all() {
  std::string out;
  for (;;) {
    out.clear();
    auto taken = session_.take_output(out, kWriteBytes);
    if (!taken) {
      broken_ = true;
      co_return std::move(taken);
    }
    if (out.empty()) {
      if (stopping_) {
        co_return ok();
      }
      wake_.clear();
      CO_TRY_DO(co_await wake_.wait());
      continue;
    }
    auto sent = co_await with_deadline(kStallTime, stream_->write(out));
    if (!sent) {
      broken_ = true;
      session_.close_streams();
      co_return std::move(sent);
    }
  }
}

}  // namespace atl::proxy::http
