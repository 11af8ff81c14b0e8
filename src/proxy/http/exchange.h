// One request on its way through, seen from both ends, whatever version of HTTP either end speaks.
//
// A ClientSide is what the sandbox sent and gets back; a ServerSide is the same request towards the
// server. relay.h joins the two. Bodies are pulled on one side and pushed on the other, a piece at
// a time, so back-pressure goes end to end. Framing and authority are values here and never header
// fields: nobody can smuggle what nobody copies.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "http/message.h"
#include "io/stream.h"

namespace atl::proxy::http {

using atl::http::Headers;

struct RequestHead {
  std::string method;
  std::string target;     // origin form, or "*"
  std::string authority;  // as sent; empty: none was (HTTP/1.0)
  Headers headers;        // end to end; without Host, framing and hop-by-hop fields
  bool has_body = false;
  std::optional<std::uint64_t> length;  // of the body
  bool expects_continue = false;
  bool accepts_trailers = false;  // "te: trailers"
  bool wants_websocket = false;   // a well-formed upgrade
};

struct ResponseHead {
  int status = 0;
  Headers headers;  // end to end
  bool has_body = false;
  std::optional<std::uint64_t> length;  // as said; also of an answer to HEAD, which has no body
};

// A connection after a 101: its bytes, and what they go over, which says goodbye.
struct Upgraded {
  std::unique_ptr<io::Stream> stream;
  io::Stream* below = nullptr;
};

class ClientSide {
 public:
  virtual ~ClientSide() = default;
  virtual RequestHead& head() = 0;
  virtual Task<std::size_t> read(std::span<char> buffer) = 0;  // 0: the end
  virtual const Headers& trailers() const = 0;                 // after the end
  // 100 and 103.
  virtual Task<> inform(int status, Headers headers) = 0;
  // May wait for the first bytes of the body; flush() does not.
  virtual Task<> start(ResponseHead head) = 0;
  virtual Task<> flush() = 0;
  virtual Task<> write(std::string_view bytes) = 0;
  // With the last bytes of the body, which then share a packet with its end.
  virtual Task<> finish(std::string_view rest, Headers trailers) = 0;
  virtual bool started() const = 0;
  // Ends when nobody waits for the answer any more; never, when that cannot be known. Only after
  // the whole request was read.
  virtual Task<> gone() = 0;
  // Sends the 101; what follows are the bytes of a WebSocket.
  virtual Task<Upgraded> switch_protocols(ResponseHead head) = 0;
};

class ServerSide {
 public:
  virtual ~ServerSide() = default;
  virtual Task<> start(const RequestHead& head) = 0;
  virtual Task<> write(std::string_view bytes) = 0;
  virtual Task<> finish(Headers trailers) = 0;
  virtual Task<ResponseHead> read_head() = 0;  // also 1xx, one after another
  virtual Task<std::size_t> read(std::span<char> buffer) = 0;
  virtual bool has_ready_bytes() const = 0;  // a read would not wait
  virtual bool has_ended() const = 0;        // all of the answer was read, trailers too
  virtual const Headers& trailers() const = 0;
  // Nothing was ever sent on this connection before: its failure is the server's.
  virtual bool is_fresh() const = 0;
  // After a 101.
  virtual Task<Upgraded> take_stream() = 0;
};

}  // namespace atl::proxy::http
