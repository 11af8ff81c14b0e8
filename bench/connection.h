// One kept-alive HTTP/1.1 connection, blocking: as little client as possible, because what is
// measured is the server. It trusts the server, which is ours, to be honest but not to be quick:
// every wait has an end.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"

namespace atl::bench {

class Connection {
 public:
  // `url` is http://ADDRESS:PORT. Connects with the first call.
  static Result<Connection> to(std::string_view url, std::string authorization,
                               std::size_t silence_ms);

  // The body of a 2xx answer; valid until the next call. Anything else is an error that has it.
  Result<std::string_view> call(std::string_view method, std::string_view path,
                                std::string_view content_type, std::string_view body);

 private:
  Result<> connect();
  Result<> send();          // the request
  Result<> receive_head();  // fills head_end_, status_, and what frames the body
  Result<std::size_t> receive();
  Result<std::string_view> receive_body();
  Result<std::string_view> receive_chunks();

  std::string address_;
  std::uint16_t port_ = 0;
  std::size_t silence_ms_ = 0;
  std::string fixed_;  // the header lines that are always the same
  Fd socket_;
  std::string request_;
  std::string input_;
  std::string joined_;  // a chunked body
  std::size_t head_end_ = 0;
  int status_ = 0;
  std::size_t length_ = 0;
  bool chunked_ = false;
  bool closes_ = false;
};

}  // namespace atl::bench
