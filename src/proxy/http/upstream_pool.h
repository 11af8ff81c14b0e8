// Connections to servers, kept between the requests of one client connection.
//
// A pool belongs to one connection of a sandbox, so nothing is ever shared between sandboxes, and
// what core cuts takes its connections along. Within it a connection is used again only for the
// same credential (the certificate we came with). HTTP/1 connections carry one request at a time;
// HTTP/2 connections many. There are at most kMaxUpstreams; whoever comes then waits for one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/scope.h"
#include "proxy/connection.h"
#include "proxy/http/exchange.h"
#include "proxy/http/trust.h"
#include "proxy/http/upstream_place.h"

namespace atl::proxy::http {

class H2Link;
struct H1Upstream;
class Memory;

struct Route {
  egress::Flow flow;
  bool secure = false;
  bool prefers_http2 = false;  // the client speaks it
  bool websocket = false;      // HTTP/1 only
  // Whom to come as, and whom to trust; null: the roots, and nobody in particular.
  egress::MaterialPtr identity;
};

class UpstreamPool {
 public:
  // HTTP/2 connections are served in `background`, which is joined after the last request. All of
  // it outlives the pool.
  UpstreamPool(Surroundings& surroundings, Memory& memory, std::shared_ptr<Session> session,
               std::shared_ptr<FlowAccount> account, Scope& background);
  ~UpstreamPool();

  // One that waits for a request like this, when there is one; else null.
  std::unique_ptr<ServerSide> take_ready(const Route& route);
  // `fresh`: not one that was used before.
  Task<std::unique_ptr<ServerSide>> open(Route route, bool fresh);
  void give_back(std::unique_ptr<H1Upstream> connection);

 private:
  Task<std::unique_ptr<ServerSide>> find_or_dial(Route route, bool fresh);
  std::unique_ptr<ServerSide> share_link(const Route& route, const std::string& key);  // or null
  Task<std::unique_ptr<H1Upstream>> take_idle(std::string key);
  std::unique_ptr<H1Upstream> take_newest(const std::string& key);
  Task<> wait_for_place();
  Task<std::unique_ptr<ServerSide>> dial(Route route, std::string key, UpstreamPlace place);
  Task<std::unique_ptr<io::Stream>> secure(const Route& route, Offer offer, std::string& protocol);
  std::unique_ptr<ServerSide> over_http2(const Route& route, std::unique_ptr<io::Stream> stream,
                                         std::string key, UpstreamPlace place);

  Surroundings& surroundings_;
  Memory& memory_;
  const std::shared_ptr<Session> session_;
  const std::shared_ptr<FlowAccount> account_;
  Scope& background_;
  bool only_http2_ = false;  // the server refused to speak anything else
  const std::shared_ptr<UpstreamCount> count_ = std::make_shared<UpstreamCount>();
  std::size_t waiting_ = 0;
  std::vector<std::unique_ptr<H1Upstream>> idle_;
  std::vector<std::shared_ptr<H2Link>> links_;
};

}  // namespace atl::proxy::http
