// What the proxy itself answers, instead of a server.
#pragma once

#include <expected>
#include <string>

#include "proxy/http/exchange.h"

namespace atl::proxy::http {

struct Answer {
  int status = 502;
  std::string body;
  std::string type = "application/json";
  std::string note;  // for the audit: "denied by rule x"
};

// A denial that says why, to people and programs. Nothing in it comes from a secret.
struct Denial {
  int status = 403;
  std::string code;  // "egress_denied"
  std::string reason;
  std::string rule;
  std::string origin;
};
Answer denial_answer(const Denial& denial, std::string_view flow_id);
// For what has no rule: malformed, unreachable, too large.
Answer failure_answer(int status, std::string_view code, std::string_view reason,
                      std::string_view flow_id);

// For an error of the client's side (while it sent its body) or of the server's.
Answer error_answer(const Error& error, bool is_clients, std::string_view flow_id);

Task<> send_answer(ClientSide& client, Answer answer);

}  // namespace atl::proxy::http
