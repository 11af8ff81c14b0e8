// Hostile and merely unusual HTTP/1 requests, and what must become of each.
//
// One table for three users: the parser test (whole, byte by byte, cut at random), the server test
// (over a real socket) and the seed corpus of the fuzz target. Every request is followed on the
// wire by kNextRequest: when the vector is refused that must never be served; when it is accepted
// it must be, so a body that is read too short or too long shows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace atl::http {

inline constexpr std::string_view kNextRequest = "GET /next HTTP/1.1\r\nHost: x\r\n\r\n";

struct RequestVector {
  std::string_view name;
  std::string bytes;
  // What refuses it, 0 when it is accepted.
  int status = 0;
  // Its head is fine and reaches the handler; the body is what is refused.
  bool refused_in_body = false;
  std::string_view body;  // of an accepted one
  // Accepted, but the connection ends after it: the next request is not served.
  bool closes = false;
};

std::vector<RequestVector> request_vectors();

struct ResponseVector {
  std::string_view name;
  std::string bytes;
  bool accepted = false;
  std::string_view body;
};

std::vector<ResponseVector> response_vectors();

}  // namespace atl::http
