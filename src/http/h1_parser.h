// One HTTP/1 message after another, from bytes to events. Sans-IO: no stream, no clock.
//
//   bytes -> HeadScanner (clean lines) -> Beast (grammar) -> gate (meaning) -> BodyDecoder
//
// feed() consumes a prefix of the input and reports one event; the caller feeds the rest again.
// The outcome does not depend on how the bytes were cut. After a refusal the parser is dead: the
// connection must end, because nobody knows where the next message starts.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "http/h1_body.h"
#include "http/http1_gate.h"

namespace atl::http {

class Http1Parser {
 public:
  enum class Event : std::uint8_t { kNeedMore, kHead, kBody, kEnd };
  struct Step {
    Event event = Event::kNeedMore;
    std::size_t consumed = 0;
    std::string_view body;  // of kBody; borrows from the input
  };

  Http1Parser(Role role, HeadLimits limits, Methods methods = Methods::kKnown)
      : role_(role), methods_(methods), scanner_(role, limits) {}

  // Prepares for the next message. `bodiless`: a response to HEAD is expected.
  void begin(bool bodiless = false);
  std::expected<Step, Refusal> feed(std::string_view input);
  // The peer closed: true when the message is complete thereby.
  bool end_of_input() { return has_head_ && body_.end_of_input(); }

  bool has_head() const { return has_head_; }
  bool started() const { return has_head_ || !pending_.empty(); }
  bool done() const { return has_head_ && body_.done(); }
  Http1Head& head() { return head_; }
  BodyDecoder& body() { return body_; }

 private:
  std::expected<Step, Refusal> feed_head(std::string_view input);
  std::optional<Refusal> accept_head(std::string_view text);

  Role role_;
  Methods methods_;
  HeadScanner scanner_;
  bool bodiless_ = false;
  bool has_head_ = false;
  std::string pending_;  // an incomplete head
  Http1Head head_;
  BodyDecoder body_;
};

}  // namespace atl::http
