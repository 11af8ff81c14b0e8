// Logging in to a PostgreSQL server with a stored password: SCRAM-SHA-256, MD5, or in the clear
// where the connection is encrypted. Sans-IO: bodies of the server's messages in, answers out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::proxy::adapters {

class PostgresLogin {
 public:
  PostgresLogin(std::string_view username, std::string_view password, bool encrypted,
                std::string nonce);
  ~PostgresLogin();
  PostgresLogin(const PostgresLogin&) = delete;
  PostgresLogin& operator=(const PostgresLogin&) = delete;

  // The body of an 'R' message; what to send, may be empty. done() says when the server has let us
  // in, and with SCRAM has proved to know the password too. Takes some milliseconds for SCRAM.
  Result<std::string> answer(std::string_view body);
  bool done() const { return state_ == State::kDone; }

 private:
  enum class State : std::uint8_t { kBegin, kFirst, kFinal, kProven, kPassword, kDone };
  Result<std::string> begin_scram(std::string_view mechanisms);
  Result<std::string> continue_scram(std::string_view challenge);
  Result<std::string> finish_scram(std::string_view proof);

  std::string username_;
  std::string password_;
  bool encrypted_;
  std::string nonce_;
  State state_ = State::kBegin;
  std::string server_signature_;
};

}  // namespace atl::proxy::adapters
