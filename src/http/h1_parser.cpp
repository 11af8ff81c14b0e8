#include "http/h1_parser.h"

#include "http/h1_grammar.h"

namespace atl::http {

void Http1Parser::begin(bool bodiless) {
  bodiless_ = bodiless;
  has_head_ = false;
  scanner_.reset();
  pending_ = {};  // gives the memory of a large head back
  head_ = {};
  body_ = {};
}

std::expected<Http1Parser::Step, Refusal> Http1Parser::feed(std::string_view input) {
  if (!has_head_) {
    return feed_head(input);
  }
  const auto step = body_.feed(input);
  if (!step) {
    return std::unexpected(step.error());
  }
  if (!step->data.empty()) {
    return Step{Event::kBody, step->consumed, step->data};
  }
  return Step{body_.done() ? Event::kEnd : Event::kNeedMore, step->consumed, {}};
}

// A head that arrives in one piece is parsed where it lies; only a torn one is collected.
std::expected<Http1Parser::Step, Refusal> Http1Parser::feed_head(std::string_view input) {
  const std::size_t before = pending_.size();
  if (before > 0) {
    pending_ += input;
  }
  const std::string_view text = before > 0 ? std::string_view{pending_} : input;
  const auto size = scanner_.scan(text);
  if (!size) {
    return std::unexpected(size.error());
  }
  if (*size == 0) {
    if (before == 0) {
      pending_ = input;
    }
    return Step{Event::kNeedMore, input.size(), {}};
  }
  if (const auto refusal = accept_head(text.substr(0, *size))) {
    return std::unexpected(*refusal);
  }
  has_head_ = true;
  body_ = BodyDecoder{head_.framing};
  const Step step{Event::kHead, *size - before, {}};
  pending_.clear();
  return step;
}

std::optional<Refusal> Http1Parser::accept_head(std::string_view text) {
  if (auto refusal = parse_head(text, role_, head_)) {
    return refusal;
  }
  return role_ == Role::kRequest ? gate_request(head_, methods_) : gate_response(head_, bodiless_);
}

}  // namespace atl::http
