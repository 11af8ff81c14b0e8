#include "proxy/first_bytes.h"

#include "base/scope.h"
#include "base/strings.h"
#include "egress/host_name.h"
#include "proxy/limits.h"

namespace atl::proxy {
namespace {

constexpr std::size_t kReadBytes = std::size_t{16} << 10;

bool is_whole(const FirstBytes& first, const egress::Classified& contents) {
  return contents.protocol != egress::AppProtocol::kHttp || contents.http2 ||
         first.bytes.contains("\r\n\r\n");
}

// True when the client's end came.
Task<bool> read_more(Socket& socket, Meter& meter, FirstBytes& first) {
  CO_TRY(const std::string more, co_await receive_some(socket, kReadBytes));
  meter.moved(Direction::kOut, more.size());
  first.bytes += more;
  const bool ended = more.empty();
  co_return ended;
}

Task<> read_until_known(Socket& socket, Meter& meter, FirstBytes& first) {
  bool ended = false;
  for (;;) {
    CO_TRY(const auto contents, egress::classify(first.bytes));
    if (contents && (is_whole(first, *contents) || ended)) {
      first.contents = *contents;
      break;
    }
    if (ended) {
      break;  // it broke off: whatever it began to be stays unknown
    }
    if (first.bytes.size() > std::max(egress::kMaxPeekBytes, kMaxFirstHeadBytes)) {
      co_return fail(Code::kInvalidArgument, "its first message is too long");
    }
    CO_TRY(ended, co_await read_more(socket, meter, first));
  }
  first.known = true;
  if (first.contents.protocol == egress::AppProtocol::kHttp && !first.contents.http2) {
    first.http_host = host_of_head(first.bytes);
  }
  co_return ok();
}

}  // namespace

Task<> look_at(Socket& socket, Meter& meter, Duration silence, FirstBytes& first) {
  if (first.bytes.empty()) {
    auto spoke = co_await with_deadline(silence, wait_readable(socket));
    if (!spoke && spoke.error().code == Code::kDeadlineExceeded) {
      co_return ok();
    }
    CO_TRY_DO(std::move(spoke));
    CO_TRY(first.ended, co_await read_more(socket, meter, first));
    if (first.ended) {
      co_return ok();
    }
  }
  auto known = co_await with_deadline(kFirstBytesTime, read_until_known(socket, meter, first));
  if (!known && known.error().code == Code::kDeadlineExceeded) {
    co_return fail(Code::kInvalidArgument, "it did not finish its first message in time");
  }
  co_return std::move(known);
}

std::string host_of_head(std::string_view head) {
  std::string_view found;
  unsigned count = 0;
  head = head.substr(0, head.find("\r\n\r\n"));
  for (std::size_t at = head.find("\r\n"); at != std::string_view::npos;) {
    const std::size_t end = head.find("\r\n", at + 2);
    const std::string_view line = head.substr(at + 2, end == head.npos ? head.npos : end - at - 2);
    const std::size_t colon = line.find(':');
    if (colon != line.npos && equals_ignore_case(line.substr(0, colon), "host")) {
      found = trim(line.substr(colon + 1));
      ++count;
    }
    at = end;
  }
  if (count != 1) {
    return {};
  }
  if (const auto colon = found.rfind(':'); colon != found.npos && !found.ends_with(']')) {
    found = found.substr(0, colon);
  }
  return egress::normal_host_name(found).value_or("");
}

Result<std::optional<std::string>> said_name(const FirstBytes& first) {
  const egress::Classified& contents = first.contents;
  if (first.known && contents.protocol == egress::AppProtocol::kTls) {
    const std::string& sent = contents.hello->server_name;
    auto name = egress::normal_host_name(sent);
    if (!sent.empty() && !name) {
      return fail(Code::kInvalidArgument, "the server name of its TLS hello is no host name");
    }
    return std::optional{std::move(name).value_or("")};
  }
  if (first.known && contents.protocol == egress::AppProtocol::kHttp && !contents.http2) {
    return std::optional{first.http_host};
  }
  return std::nullopt;
}

}  // namespace atl::proxy
