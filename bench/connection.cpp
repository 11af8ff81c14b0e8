#include "connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>

#include "base/strings.h"

namespace atl::bench {
namespace {

std::unexpected<Error> fail_io(const char* what) {
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINPROGRESS) {
    return fail(Code::kDeadlineExceeded, concat(what, " takes too long: the server hangs"));
  }
  return fail_errno(what);
}

}  // namespace

Result<Connection> Connection::to(std::string_view url, std::string authorization,
                                  std::size_t silence_ms) {
  constexpr std::string_view kScheme = "http://";
  const auto colon = url.rfind(':');
  if (!url.starts_with(kScheme) || colon < kScheme.size()) {
    return fail(Code::kInvalidArgument, concat("expected http://ADDRESS:PORT, not ", url));
  }
  Connection made;
  made.silence_ms_ = silence_ms;
  made.address_ = url.substr(kScheme.size(), colon - kScheme.size());
  made.port_ = static_cast<std::uint16_t>(parse_u64(url.substr(colon + 1)).value_or(0));
  made.fixed_ = concat("Host: ", url.substr(kScheme.size()), "\r\n");
  if (!authorization.empty()) {
    made.fixed_ += concat("Authorization: ", authorization, "\r\n");
  }
  return made;
}

Result<> Connection::connect() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  socket_ = Fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const timeval silence{.tv_sec = static_cast<time_t>(silence_ms_ / 1000),
                        .tv_usec = static_cast<suseconds_t>(silence_ms_ % 1000 * 1000)};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    if (::setsockopt(socket_.get(), SOL_SOCKET, option, &silence, sizeof silence) != 0) {
      return fail_errno("setting a timeout");
    }
  }
  if (::inet_pton(AF_INET, address_.c_str(), &address.sin_addr) != 1 ||
      ::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return fail_io("connecting to the server");
  }
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return {};
}

Result<std::size_t> Connection::receive() {
  const std::size_t have = input_.size();
  constexpr std::size_t kPiece = 65536;
  ssize_t size = 0;
  input_.resize_and_overwrite(have + kPiece, [&](char* data, std::size_t) {
    size = ::read(socket_.get(), data + have, kPiece);
    return have + static_cast<std::size_t>(size > 0 ? size : 0);
  });
  if (size <= 0) {
    return size == 0 ? fail(Code::kUnavailable, "the server closed the connection")
                     : fail_io("reading the answer");
  }
  return static_cast<std::size_t>(size);
}

Result<> Connection::send() {
  std::string_view left = request_;
  while (!left.empty()) {
    const ssize_t sent = ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      left.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      return fail_io("sending the request");
    }
  }
  return {};
}

Result<> Connection::receive_head() {
  input_.clear();
  std::size_t end = std::string::npos;
  while ((end = input_.find("\r\n\r\n")) == std::string::npos) {
    TRY_DO(receive());
  }
  head_end_ = end + 4;
  const std::string_view head{input_.data(), end};
  status_ = static_cast<int>(parse_u64(head.substr(9, 3)).value_or(0));
  length_ = 0;
  chunked_ = closes_ = false;
  for (const std::string_view line : split(head, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) {
      continue;
    }
    const auto name = line.substr(0, colon);
    const auto value = trim(line.substr(colon + 1));
    if (equals_ignore_case(name, "content-length")) {
      length_ = parse_u64(value).value_or(0);
    } else if (equals_ignore_case(name, "transfer-encoding")) {
      chunked_ = true;
    } else if (equals_ignore_case(name, "connection")) {
      closes_ = equals_ignore_case(value, "close");
    }
  }
  return {};
}

Result<std::string_view> Connection::receive_chunks() {
  joined_.clear();
  std::size_t at = head_end_;
  while (true) {
    std::size_t line_end = 0;
    while ((line_end = input_.find("\r\n", at)) == std::string::npos) {
      TRY_DO(receive());
    }
    std::size_t size = 0;
    std::from_chars(input_.data() + at, input_.data() + line_end, size, 16);
    at = line_end + 2;
    while (input_.size() < at + size + 2) {
      TRY_DO(receive());
    }
    if (size == 0) {
      return joined_;
    }
    joined_.append(input_, at, size);
    at += size + 2;
  }
}

Result<std::string_view> Connection::receive_body() {
  if (chunked_) {
    return receive_chunks();
  }
  while (input_.size() < head_end_ + length_) {
    TRY_DO(receive());
  }
  return std::string_view{input_}.substr(head_end_, length_);
}

Result<std::string_view> Connection::call(std::string_view method, std::string_view path,
                                          std::string_view content_type, std::string_view body) {
  request_ = concat(method, " ", path, " HTTP/1.1\r\n", fixed_);
  if (!content_type.empty()) {
    request_ += concat("Content-Type: ", content_type, "\r\n");
  }
  if (method != "GET" || !body.empty()) {
    request_ += concat("Content-Length: ", body.size(), "\r\n");
  }
  request_ += "\r\n";
  request_ += body;
  input_.clear();
  const bool fresh = !socket_;
  if (fresh) {
    TRY_DO(connect());
  }
  auto sent = send();
  auto head = sent ? receive_head() : sent;
  // It was closed while nothing was on its way. A request that was too long under way is not
  // repeated: it may have been done.
  if (!head && !fresh && input_.empty() && head.error().code != Code::kDeadlineExceeded) {
    TRY_DO(connect());
    TRY_DO(send());
    head = receive_head();
  }
  auto content = head ? receive_body() : Result<std::string_view>{fail(std::move(head).error())};
  if (!content || closes_) {
    socket_.reset();  // after a failure, what comes yet belongs to nobody
  }
  if (content && status_ / 100 != 2) {
    return fail(Code::kInternal, concat(method, " ", path, ": HTTP ", status_, ": ", *content));
  }
  return content;
}

}  // namespace atl::bench
