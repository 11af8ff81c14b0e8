#include "http/h1_wire.h"

#include <cstring>

namespace atl::http {
namespace {

constexpr unsigned kOperationsPerTurn = 32;

// Lets everything run that is ready now. The posted callback cannot be taken back, so it holds a
// token that a cancelled wait empties.
class Turn final : public Leaf {
 private:
  void start(TaskContext& context) override {
    token_ = std::make_shared<Turn*>(this);
    context.loop->post([token = token_] {
      if (*token != nullptr) {
        (*token)->complete({});
      }
    });
  }
  void stop() override { *token_ = nullptr; }

  std::shared_ptr<Turn*> token_;  // shared with the posted callback
};

template <class T>
Task<T> before(Duration deadline, Task<T> task) {
  if (deadline == Duration::zero()) {
    return task;
  }
  return with_deadline(deadline, std::move(task));
}

}  // namespace

Http1Wire::Http1Wire(io::Stream& stream, Options options)
    : stream_(stream), options_(options), parser_(options.role, options.limits, options.methods) {}

std::span<char> Http1Wire::buffer() {
  if (buffer_ == nullptr) {
    buffer_.reset(new std::array<char, kInputBytes>);  // not cleared: most is never used
  }
  return *buffer_;
}

bool Http1Wire::is_others_turn() {
  return ++operations_ % kOperationsPerTurn == 0;
}

Task<std::size_t> Http1Wire::read_stream(std::span<char> buffer) {
  const bool is_turn = is_others_turn();
  return is_turn || options_.received_bytes != nullptr ? read_and_count(buffer, is_turn)
                                                       : stream_.read(buffer);
}

Task<std::size_t> Http1Wire::read_and_count(std::span<char> buffer, bool others_first) {
  if (others_first) {
    CO_TRY_DO(co_await Turn{});
  }
  CO_TRY(const auto got, co_await stream_.read(buffer));
  if (options_.received_bytes != nullptr) {
    options_.received_bytes->add(got);
  }
  co_return got;
}

Task<std::size_t> Http1Wire::fill() {
  CHECK(begin_ == end_);
  CO_TRY(const auto got, co_await read_stream(buffer()));
  begin_ = 0;
  end_ = got;
  co_return got;
}

Task<std::size_t> Http1Wire::fill_when_readable() {
  CHECK(begin_ == end_);
  buffer_.reset();
  begin_ = end_ = 0;
  CO_TRY_DO(co_await stream_.wait_readable());
  co_return co_await fill();
}

Task<bool> Http1Wire::begins_with(std::string_view mark) {
  CHECK(mark.size() <= kInputBytes);
  for (;;) {
    const auto begun = input().substr(0, mark.size());
    if (!mark.starts_with(begun)) {
      co_return false;
    }
    if (begun.size() == mark.size()) {
      co_return true;
    }
    CO_TRY(const auto got, co_await read_stream(buffer().subspan(end_)));
    if (got == 0) {
      co_return false;
    }
    end_ += got;
  }
}

std::unexpected<Error> Http1Wire::refuse(Refusal refusal) {
  refusal_ = refusal;
  return fail(Code::kInvalidArgument, std::string{refusal.reason}, "malformed_message");
}

Task<bool> Http1Wire::read_head() {
  for (;;) {
    if (!has_input()) {
      CO_TRY(const auto got, co_await fill());
      if (got == 0) {
        if (!parser_.started()) {
          co_return false;
        }
        co_return fail(Code::kUnavailable, "the peer closed in the middle of a head", "closed");
      }
    }
    const auto step = parser_.feed(input());
    if (!step) {
      co_return refuse(step.error());
    }
    begin_ += step->consumed;
    if (step->event == Http1Parser::Event::kHead) {
      co_return true;
    }
  }
}

Task<std::size_t> Http1Wire::read_directly(std::span<char> buffer) {
  const auto plain = parser_.body().plain_bytes();
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(plain, buffer.size()));
  CO_TRY(const auto got, co_await before(options_.stall_timeout, read_stream(buffer.first(size))));
  parser_.body().skip(got);
  co_return got;
}

Task<std::size_t> Http1Wire::read_body(std::span<char> buffer) {
  CHECK(!buffer.empty());
  while (!parser_.done()) {
    if (refusal_) {
      co_return refuse(*refusal_);
    }
    if (!has_input()) {
      const bool direct = parser_.body().plain_bytes() >= kInputBytes;
      auto got = direct ? read_directly(buffer) : before(options_.stall_timeout, fill());
      CO_TRY(const auto size, co_await std::move(got));
      if (size == 0 && !parser_.end_of_input()) {
        co_return fail(Code::kUnavailable, "the peer closed in the middle of a body", "closed");
      }
      if (direct || size == 0) {
        co_return size;
      }
    }
    // No more input than fits the buffer: what comes out is never longer than what goes in.
    const auto step = parser_.feed(input().substr(0, buffer.size()));
    if (!step) {
      co_return refuse(step.error());
    }
    begin_ += step->consumed;
    if (!step->body.empty()) {
      std::memcpy(buffer.data(), step->body.data(), step->body.size());
      co_return step->body.size();
    }
  }
  co_return 0;
}

Task<bool> Http1Wire::discard_body(std::size_t max_bytes) {
  char scrap[4096];
  std::size_t dropped = 0;
  while (dropped <= max_bytes) {
    CO_TRY(const auto got, co_await read_body(scrap));
    if (got == 0) {
      co_return true;
    }
    dropped += got;
  }
  co_return false;
}

std::string Http1Wire::take_input() {
  std::string rest{input()};
  begin_ = end_ = 0;
  return rest;
}

Task<> Http1Wire::write(std::string_view first, std::string_view second) {
  const std::size_t size = first.size() + second.size();
  const bool is_turn = is_others_turn();
  if (size == 0 || size > kPieceBytes || is_turn || options_.sent_bytes != nullptr) {
    return write_pieces(first, second, is_turn);
  }
  return before(options_.stall_timeout, stream_.write(first, second));
}

Task<> Http1Wire::write_pieces(std::string_view first, std::string_view second, bool others_first) {
  while (!first.empty() || !second.empty()) {
    if (others_first) {
      CO_TRY_DO(co_await Turn{});
    }
    const auto head = first.substr(0, kPieceBytes);
    first.remove_prefix(head.size());
    const auto tail =
        first.empty() ? second.substr(0, kPieceBytes - head.size()) : std::string_view{};
    second.remove_prefix(tail.size());
    CO_TRY_DO(co_await before(options_.stall_timeout, stream_.write(head, tail)));
    if (options_.sent_bytes != nullptr) {
      options_.sent_bytes->add(head.size() + tail.size());
    }
    others_first = is_others_turn();
  }
  co_return ok();
}

}  // namespace atl::http
