// The client's half of SOCKS5 (RFC 1928, RFC 1929): what to send, how many bytes to read next, what
// they mean. Sans-IO. Lengths are known before each read, so a hostile proxy is never read further
// than its answer.
#pragma once

#include <string>
#include <string_view>

#include "proxy/endpoint.h"

namespace atl::proxy {

class Socks5Client {
 public:
  // An empty username: no authentication is offered.
  Socks5Client(Endpoint target, std::string username, std::string password);
  ~Socks5Client();
  Socks5Client(const Socks5Client&) = delete;
  Socks5Client& operator=(const Socks5Client&) = delete;

  // To be sent before the next read; empty when there is nothing.
  std::string take_output();
  // The exact size of the next read; 0: the way is open.
  std::size_t wanted_bytes() const { return wanted_; }
  // REQUIRES: wanted_bytes() many.
  Result<> feed(std::string_view bytes);

 private:
  enum class State : std::uint8_t { kMethod, kLogin, kReplyHead, kReplyName, kReplyRest, kOpen };
  Result<> method_chosen(std::uint8_t method);
  Result<> reply_head(std::string_view bytes);
  void send_request();

  Endpoint target_;
  std::string username_;
  std::string password_;
  std::string output_;
  State state_ = State::kMethod;
  std::size_t wanted_ = 2;
};

}  // namespace atl::proxy
