// One connection, kept between requests. While a response is being read the response owns the
// connection; read to its end it parks the connection again, destroyed earlier it closes it.
//
// A parked connection may have died meanwhile. That is looked for before each use; when it dies
// under a request anyway, the request is sent once more on a fresh connection, but only when no
// byte of an answer came, the body is still at hand and the method is safe to repeat.
#include "http/client.h"

#include <array>
#include <charconv>

#include "base/strings.h"
#include "http/client_connection.h"

namespace atl::http {
namespace {

constexpr std::size_t kUploadBytes = std::size_t{64} * 1024;
constexpr std::size_t kChunkLineBytes = 8;  // "10000\r\n" at most
constexpr int kMaxInterimResponses = 16;

// Shared by a client and the response under way: the response may outlive the client.
struct ParkingSlot {
  std::unique_ptr<ClientConnection> connection;
};

class StreamedResponse final : public ClientResponse, private Body {
 public:
  StreamedResponse(std::shared_ptr<ParkingSlot> slot, std::unique_ptr<ClientConnection> connection,
                   bool reusable)
      : slot_(std::move(slot)), connection_(std::move(connection)), reusable_(reusable) {
    Http1Head& head = connection_->wire.parser().head();
    status_ = head.status;
    headers_ = std::move(head.headers);
    reusable_ = reusable_ && head.keep_alive;
    if (head.framing.kind == Framing::Kind::kNone || head.framing.kind == Framing::Kind::kLength) {
      length_ = head.framing.length;
    }
    if (connection_->wire.parser().done()) {
      release();
    }
  }

  int status() const override { return status_; }
  const Headers& headers() const override { return headers_; }
  Body& body() override { return *this; }

 private:
  Task<std::size_t> read(std::span<char> buffer) override {
    if (!connection_) {
      co_return std::size_t{0};
    }
    auto got = co_await connection_->wire.read_body(buffer);
    if (!got) {
      reusable_ = false;
    }
    if (got && connection_->wire.parser().done()) {
      release();
    }
    co_return std::move(got);
  }
  std::optional<std::uint64_t> length() const override { return length_; }

  void release() {
    if (reusable_ && !connection_->wire.has_input()) {
      slot_->connection = std::move(connection_);
    }
    connection_.reset();
  }

  std::shared_ptr<ParkingSlot> slot_;
  std::unique_ptr<ClientConnection> connection_;
  bool reusable_;
  int status_ = 0;
  Headers headers_;
  std::optional<std::uint64_t> length_;
};

bool is_repeatable(std::string_view method) {
  return method != "POST" && method != "PATCH";
}

// Reads heads until one is a final answer.
Task<> read_final_head(Http1Wire& wire, bool bodiless) {
  for (int i = 0; i < kMaxInterimResponses; ++i) {
    wire.parser().begin(bodiless);
    CO_TRY(const bool arrived, co_await wire.read_head());
    if (!arrived) {
      co_return fail(Code::kUnavailable, "the server closed the connection without an answer",
                     "closed");
    }
    const int status = wire.parser().head().status;
    if (status == 101) {
      co_return fail(Code::kUnavailable, "the server switched protocols without being asked");
    }
    if (status >= 200) {
      co_return ok();
    }
  }
  co_return fail(Code::kUnavailable, "the server sent too many interim responses");
}

}  // namespace

struct Client::Impl {
  io::Reactor& reactor;
  Url url;
  const tls::Context* tls = nullptr;
  std::shared_ptr<ParkingSlot> slot = std::make_shared<ParkingSlot>();

  struct Taken {
    std::unique_ptr<ClientConnection> connection;
    bool reused = false;
  };
  Task<Taken> take();
  // `sent`: how the request went out; an answer counts even when it did not go out whole.
  Task<std::unique_ptr<ClientResponse>> receive(std::unique_ptr<ClientConnection>& connection,
                                                bool bodiless, Result<bool> sent);
};

Task<Client::Impl::Taken> Client::Impl::take() {
  if (auto parked = std::move(slot->connection); parked && !parked->has_news()) {
    co_return Taken{std::move(parked), true};
  }
  CO_TRY(auto connection, co_await connect_client(reactor, url, tls));
  co_return Taken{std::move(connection), false};
}

Task<std::unique_ptr<ClientResponse>> Client::Impl::receive(
    std::unique_ptr<ClientConnection>& connection, bool bodiless, Result<bool> sent) {
  const bool unsent = !sent && sent.error().code != Code::kUnavailable;
  if (unsent) {
    co_return fail(std::move(sent).error());
  }
  auto answered = co_await read_final_head(connection->wire, bodiless);
  if (!answered) {
    co_return fail(sent ? std::move(answered).error() : std::move(sent).error());
  }
  const bool complete = sent && *sent;
  co_return std::make_unique<StreamedResponse>(slot, std::move(connection), complete);
}

namespace {

Task<bool> send_whole(Http1Wire& wire, const std::string& head, const std::string& body) {
  CO_TRY_DO(co_await wire.write(head, body));
  co_return true;
}

// False when the server answered before the body was out.
Task<bool> send_fixed(ClientConnection& connection, const std::string& head, std::uint64_t length,
                      BodySource& source) {
  CO_TRY_DO(co_await connection.wire.write(head));
  std::string buffer(std::min<std::uint64_t>(length, kUploadBytes), '\0');
  while (length > 0) {
    if (connection.answered_early()) {
      co_return false;
    }
    const auto room = std::span{buffer}.first(std::min<std::uint64_t>(length, buffer.size()));
    CO_TRY(const auto got, co_await source(room));
    if (got == 0 || got > room.size()) {
      co_return fail(Code::kAborted, "the request body ended before its announced length");
    }
    CO_TRY_DO(co_await connection.wire.write({buffer.data(), got}));
    length -= got;
  }
  co_return true;
}

// Each chunk is built around its data in place: size line before it, CR LF behind it.
Task<bool> send_chunked(ClientConnection& connection, const std::string& head, BodySource& source) {
  CO_TRY_DO(co_await connection.wire.write(head));
  std::string buffer(kChunkLineBytes + kUploadBytes + 2, '\0');
  for (;;) {
    if (connection.answered_early()) {
      co_return false;
    }
    const auto room = std::span{buffer}.subspan(kChunkLineBytes, kUploadBytes);
    CO_TRY(const auto got, co_await source(room));
    CHECK(got <= room.size());
    if (got == 0) {
      CO_TRY_DO(co_await connection.wire.write("0\r\n\r\n"));
      co_return true;
    }
    std::array<char, kChunkLineBytes> line{};
    char* end = std::to_chars(line.data(), line.data() + line.size(), got, 16).ptr;
    *end++ = '\r';
    *end++ = '\n';
    const std::size_t line_size = static_cast<std::size_t>(end - line.data());
    const std::size_t begin = kChunkLineBytes - line_size;
    std::copy(line.data(), end, buffer.data() + begin);
    buffer[kChunkLineBytes + got] = '\r';
    buffer[kChunkLineBytes + got + 1] = '\n';
    CO_TRY_DO(co_await connection.wire.write({buffer.data() + begin, line_size + got + 2}));
  }
}

}  // namespace

Client::Client(io::Reactor& reactor, Url url, const tls::Context* tls)
    : impl_(std::make_unique<Impl>(Impl{.reactor = reactor, .url = std::move(url), .tls = tls})) {}
Client::~Client() = default;

Task<std::unique_ptr<ClientResponse>> Client::send(std::string method, std::string path,
                                                   Headers headers, std::string body) {
  const bool has_length = !body.empty() || method == "POST" || method == "PUT" || method == "PATCH";
  const auto framing = has_length ? concat("content-length: ", body.size(), "\r\n") : std::string{};
  CO_TRY(const auto head, make_request_head(impl_->url, method, path, headers, framing));
  for (bool retried = false;; retried = true) {
    CO_TRY(auto taken, co_await impl_->take());
    auto sent = co_await send_whole(taken.connection->wire, head, body);
    auto response = co_await impl_->receive(taken.connection, method == "HEAD", std::move(sent));
    const bool stale = !response && response.error().code == Code::kUnavailable && taken.reused &&
                       !taken.connection->wire.parser().started();
    if (!stale || retried || !is_repeatable(method)) {
      co_return std::move(response);
    }
  }
}

Task<std::unique_ptr<ClientResponse>> Client::send_stream(std::string method, std::string path,
                                                          Headers headers,
                                                          std::optional<std::uint64_t> length,
                                                          BodySource source) {
  const auto framing = length ? concat("content-length: ", *length, "\r\n")
                              : std::string{"transfer-encoding: chunked\r\n"};
  CO_TRY(const auto head, make_request_head(impl_->url, method, path, headers, framing));
  CO_TRY(auto taken, co_await impl_->take());
  auto sending = length ? send_fixed(*taken.connection, head, *length, source)
                        : send_chunked(*taken.connection, head, source);
  auto sent = co_await std::move(sending);
  co_return co_await impl_->receive(taken.connection, method == "HEAD", std::move(sent));
}

Task<std::unique_ptr<WebSocket>> Client::connect_websocket(std::string path, Headers headers,
                                                           WebSocketOptions options) {
  CO_TRY(auto connection, co_await connect_client(impl_->reactor, impl_->url, impl_->tls));
  co_return co_await upgrade_to_websocket(std::move(connection), impl_->url, std::move(path),
                                          std::move(headers), std::move(options));
}

}  // namespace atl::http
