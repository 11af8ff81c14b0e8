// An HTTP/2 connection at work, in either role: reads, feeds the session, writes what it has to
// say. Requests are streams on it; see h2_sides.h.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/scope.h"
#include "io/stream.h"
#include "proxy/http/h2_session.h"

namespace atl::proxy::http {

class H2Link {
 public:
  using RequestHandler = std::function<void(std::shared_ptr<H2Stream>)>;

  // `key` tells links to servers apart; see UpstreamPool.
  H2Link(H2Role role, std::unique_ptr<io::Stream> stream, std::string key = {});

  // Until the connection ends. The handler (of a server) starts its work and returns.
  static Task<> run(std::shared_ptr<H2Link> self, RequestHandler on_request = {});

  // The session has something to say.
  void wake() { wake_.set(); }
  H2Session& session() { return session_; }
  const std::string& key() const { return key_; }
  bool takes_requests() const { return !ended_ && session_.takes_requests(); }

 private:
  Task<> read_loop(const RequestHandler& on_request);
  Task<> write_loop();
  Task<> write_all();  // until there is nothing more to say

  std::unique_ptr<io::Stream> stream_;
  const std::string key_;
  H2Session session_;
  Event wake_;
  Event written_;          // the writer has ended
  bool stopping_ = false;  // nothing more will be said; the writer ends when it is done
  bool broken_ = false;    // the writer failed
  bool ended_ = false;
};

}  // namespace atl::proxy::http
