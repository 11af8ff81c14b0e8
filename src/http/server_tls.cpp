#include "http/server_tls.h"

#include <sys/socket.h>

#include "tls/stream.h"

namespace atl::http {
namespace {

constexpr std::string_view kUseHttps =
    "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 101\r\n"
    "connection: close\r\n\r\n"
    "{\"error\":{\"code\":\"bad_request\",\"message\":\"this port speaks HTTPS; "
    "use an https:// address instead\"}}\n";

// The first byte of a TLS record of a handshake is 0x16; of an HTTP request, a capital letter.
bool starts_like_http(int fd) {
  char first = 0;
  return ::recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && first >= 'A' && first <= 'Z';
}

// Reads what is there, so that closing does not reset the connection before the answer is read.
void discard_input(int fd) {
  char scrap[16 * 1024];
  for (int i = 0; i < 16 && ::recv(fd, scrap, sizeof scrap, MSG_DONTWAIT) > 0; ++i) {
  }
}

}  // namespace

Task<std::unique_ptr<io::Stream>> secure(std::unique_ptr<io::FdStream> stream,
                                         const tls::Context& context) {
  CO_TRY_DO(co_await stream->wait_readable());
  if (starts_like_http(stream->fd())) {
    discard_input(stream->fd());
    stream->write_now(kUseHttps);
    co_return fail(Code::kInvalidArgument, "the client speaks plain HTTP on a TLS port");
  }
  CO_TRY(auto secured, co_await tls::TlsStream::accept(std::move(stream), context));
  co_return std::move(secured);
}

}  // namespace atl::http
