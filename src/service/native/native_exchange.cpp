#include "service/native/native_exchange.h"

#include <algorithm>

#include "base/random.h"
#include "base/trace.h"

namespace atl::service::native {
namespace {

class TextBody final : public http::Body {
 public:
  explicit TextBody(std::string text) : text_(std::move(text)) {}
  Task<std::size_t> read(std::span<char> buffer) override {
    const std::size_t count = std::min(buffer.size(), text_.size() - position_);
    std::copy_n(text_.data() + position_, count, buffer.data());
    position_ += count;
    co_return count;
  }
  std::optional<std::uint64_t> length() const override { return text_.size(); }

 private:
  const std::string text_;
  std::size_t position_ = 0;
};

}  // namespace

void Timing::authenticated(const http::Request& request) const {
  if (context_.trace == nullptr) {
    return;
  }
  context_.trace->mark(Step::kAuth, context_.loop->now());
  if (request.headers.has(http::kTimingHeader)) {
    context_.trace->report();
  }
}

void NativeExchange::replace_body(std::string text) {
  body_ = std::make_unique<TextBody>(std::move(text));
}

Task<> NativeExchange::respond(http::Response response) {
  status_ = response.status;
  bytes_sent_ += response.body.size();
  if (copy_ != nullptr) {
    *copy_ = response;
  }
  response.headers.set("x-request-id", request_id_);
  return inner_.respond(std::move(response));
}

Task<> NativeExchange::start(int status, http::Headers headers,
                             std::optional<std::uint64_t> length) {
  status_ = status;
  headers.set("x-request-id", request_id_);
  return inner_.start(status, std::move(headers), length);
}

Task<> NativeExchange::client_gone() {
  if (copy_ != nullptr && copy_->status == 0) {
    Event never;
    co_return co_await never.wait();
  }
  co_return co_await inner_.client_gone();
}

Task<std::unique_ptr<http::WebSocket>> NativeExchange::accept_websocket(
    http::WebSocketOptions options) {
  CO_TRY(auto socket, co_await inner_.accept_websocket(std::move(options)));
  status_ = 101;
  co_return std::move(socket);
}

Task<> NativeExchange::write(std::string_view bytes) {
  bytes_sent_ += bytes.size();
  return inner_.write(bytes);
}

std::string choose_request_id(const http::Request& request) {
  constexpr std::size_t kMaxBytes = 64;
  const auto given = request.headers.get("x-request-id");
  const bool sane = !given.empty() && given.size() <= kMaxBytes &&
                    std::all_of(given.begin(), given.end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
                    });
  return sane ? std::string{given} : random_hex(16);
}

Task<> cancel_when_client_gone(http::Exchange& exchange, CancelState& cancel) {
  if (auto gone = co_await exchange.client_gone(); gone) {
    cancel.cancel();
  }
  co_return ok();
}

Task<> cancel_when_server_stops(http::Exchange& exchange, CancelState& cancel) {
  if (auto stops = co_await exchange.server_stops().wait(); stops) {
    cancel.cancel();
  }
  co_return ok();
}

Error server_stops_error() {
  return {Code::kUnavailable, "the server stops; ask again from here", "server_stops"};
}

}  // namespace atl::service::native
