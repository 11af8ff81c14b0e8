// A request to a server over HTTP/1.
#pragma once

#include "http/h1_wire.h"
#include "proxy/http/exchange.h"
#include "proxy/http/upstream_place.h"

namespace atl::proxy::http {

class UpstreamPool;

struct H1Upstream {
  H1Upstream(std::unique_ptr<io::Stream> s, std::string k, UpstreamPlace p);

  UpstreamPlace place;
  std::unique_ptr<io::Stream> stream;
  std::string key;
  atl::http::Http1Wire wire;
  unsigned requests = 0;
  Instant idle_since{};
};

class H1ServerSide final : public ServerSide {
 public:
  H1ServerSide(UpstreamPool& pool, std::unique_ptr<H1Upstream> connection);
  ~H1ServerSide() override;

  Task<> start(const RequestHead& head) override;
  Task<> write(std::string_view bytes) override;
  Task<> finish(Headers trailers) override;
  Task<ResponseHead> read_head() override;
  Task<std::size_t> read(std::span<char> buffer) override;
  bool has_ready_bytes() const override { return connection_->wire.has_input(); }
  bool has_ended() const override { return connection_->wire.parser().done(); }
  const Headers& trailers() const override;
  bool is_fresh() const override { return connection_->requests <= 1; }
  Task<Upgraded> take_stream() override;

 private:
  Task<> flush(std::string_view bytes);

  UpstreamPool& pool_;
  std::unique_ptr<H1Upstream> connection_;
  std::string pending_;  // a head that waits for the first bytes of its body
  std::string method_;
  bool chunked_ = false;
  std::optional<std::uint64_t> remaining_bytes_;
  bool sent_ = false;        // the whole request
  bool keep_alive_ = false;  // the server said so, with the final answer
};

}  // namespace atl::proxy::http
