// What an HTTP/1 parser makes of bytes, as text that can be compared.
#pragma once

#include "base/strings.h"
#include "fuzz.h"
#include "http/h1_parser.h"

namespace atl::fuzz {

inline std::string describe(const http::Http1Head& head) {
  std::string text =
      concat(head.method, " ", head.target, " ", head.status, " 1.", head.minor_version, " keep ",
             head.keep_alive, " continue ", head.expects_continue, " framing ",
             static_cast<int>(head.framing.kind), " ", head.framing.length, "\n");
  for (const auto& [name, value] : head.headers.lines()) {
    text += concat(name, ": ", value, "\n");
  }
  return text;
}

inline std::string write_head(http::Role role, const http::Http1Head& head) {
  std::string text =
      role == http::Role::kRequest
          ? concat(head.method, " ", head.target, " HTTP/1.", head.minor_version, "\r\n")
          : concat("HTTP/1.", head.minor_version, " ", head.status, " x\r\n");
  for (const auto& [name, value] : head.headers.lines()) {
    text += concat(name, ": ", value, "\r\n");
  }
  return text + "\r\n";
}

// A head that was accepted means the same after it was written and read again.
inline void check_head_survives(http::Role role, const http::Http1Head& head) {
  http::Http1Parser parser{role, {}};
  parser.begin();
  const auto text = write_head(role, head);
  const auto step = parser.feed(text);
  CHECK(step && step->event == http::Http1Parser::Event::kHead && step->consumed == text.size());
  CHECK(describe(parser.head()) == describe(head));
}

// All messages of a connection, up to the refusal that ends it.
inline std::string read_connection(http::Role role, const std::vector<std::string_view>& parts) {
  using Event = http::Http1Parser::Event;
  http::Http1Parser parser{role, {.bytes = 2048, .count = 16}};
  parser.begin();
  std::string seen;
  for (std::string_view part : parts) {
    while (!part.empty()) {
      const auto step = parser.feed(part);
      if (!step) {
        CHECK(!step.error().reason.empty());
        return seen + concat("\nrefused ", step.error().status, " ", step.error().reason);
      }
      CHECK(step->consumed <= part.size());
      CHECK(step->consumed > 0 || parser.done());
      part.remove_prefix(step->consumed);
      seen += step->body;
      if (step->event == Event::kHead) {
        check_head_survives(role, parser.head());
        seen += describe(parser.head());
      }
      if (parser.done()) {
        seen += "\nend\n";
        parser.begin();
      }
    }
  }
  return seen + (parser.end_of_input() ? "\nended by close" : "\ncut short");
}

}  // namespace atl::fuzz
