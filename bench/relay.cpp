// The HTTP relay alone, for measurements and profiles: everything that connects to LISTEN is served
// as if it came from a sandbox and wanted to go to NAME, which is at UPSTREAM.
//
//   atoll-relay LISTEN_PORT NAME UPSTREAM_PORT ROOTS_PEM AUTHORITY_CERT AUTHORITY_KEY
//
// Plain HTTP when ROOTS_PEM is "-". The authority is the sandbox's; clients must trust it.
#include <cstdio>

#include "base/fd.h"
#include "base/strings.h"
#include "proxy/http/serve.h"

namespace atl {
namespace {

class World final : public proxy::Upstreams,
                    public egress::Credentials,
                    public egress::Approvals,
                    public egress::Authorities,
                    public proxy::Session {
 public:
  World(io::Reactor& reactor, std::uint16_t port) : reactor_(reactor), port_(port) {
    rules_->sandbox_id = "bench";
    rules_->layers.push_back({"sandbox", {}});
  }
  Task<std::unique_ptr<io::Stream>> dial(std::shared_ptr<proxy::Session>, egress::Flow,
                                         std::shared_ptr<proxy::FlowAccount>) override {
    CO_TRY(auto stream, co_await io::connect_tcp(reactor_, "127.0.0.1", port_));
    co_return std::move(stream);
  }
  Task<egress::MaterialPtr> resolve(egress::RulesPtr, std::string) override {
    co_return fail(Code::kNotFound, "there are no credentials here");
  }
  Task<bool> ask(egress::ApprovalQuestion) override { co_return false; }
  Task<std::shared_ptr<const egress::Authority>> authority(std::string) override {
    co_return authority_;
  }
  egress::RulesPtr rules() const override { return rules_; }

  std::shared_ptr<egress::Authority> authority_ = std::make_shared<egress::Authority>();

 private:
  io::Reactor& reactor_;
  const std::uint16_t port_;
  std::shared_ptr<egress::SandboxRules> rules_ = std::make_shared<egress::SandboxRules>();
};

Task<> accept_all(io::Listener& listener, proxy::Surroundings& surroundings,
                  std::shared_ptr<World> world, egress::Flow flow, bool secure) {
  Scope connections{co_await current_context()};
  connections.on_error([](const char*, const Error&) {});
  for (;;) {
    auto client = co_await listener.accept();
    if (!client) {
      break;
    }
    egress::Classified first;
    first.protocol = secure ? egress::AppProtocol::kTls : egress::AppProtocol::kHttp;
    auto account = std::make_shared<proxy::FlowAccount>();
    account->record.id = "bench";
    connections.spawn("connection", proxy::http::serve(surroundings, {.client = *std::move(client),
                                                                      .flow = flow,
                                                                      .first = first,
                                                                      .session = world,
                                                                      .account = account}));
  }
  co_return co_await connections.cancel_and_join();
}

int run(char** arguments) {
  io::Reactor reactor;
  io::OffloadPool threads{"offload", 1, 64};
  SystemWallClock clock;
  const auto listen_port = static_cast<std::uint16_t>(parse_u64(arguments[1]).value_or(0));
  const auto upstream_port = static_cast<std::uint16_t>(parse_u64(arguments[3]).value_or(0));
  const bool secure = std::string_view{arguments[4]} != "-";
  const auto world = std::make_shared<World>(reactor, upstream_port);
  proxy::Surroundings surroundings{reactor, threads, clock, *world, *world, *world, *world, {}};
  if (secure) {
    surroundings.upstream_roots_pem = read_file(arguments[4]).value_or("");
    world->authority_->certificate_pem = read_file(arguments[5]).value_or("");
    world->authority_->key_pem = read_file(arguments[6]).value_or("");
  }
  egress::Flow flow;
  flow.name = arguments[2];
  flow.port = secure ? 443 : 80;
  auto socket = io::Listener::bind_tcp("127.0.0.1", listen_port);
  if (!socket) {
    std::fprintf(stderr, "%s\n", socket.error().message.c_str());
    return 1;
  }
  io::Listener listener{reactor, *std::move(socket)};
  (void)reactor.run_until_complete(accept_all(listener, surroundings, world, flow, secure));
  return 0;
}

}  // namespace
}  // namespace atl

int main(int count, char** arguments) {
  if (count < 5) {
    std::fprintf(stderr, "usage: atoll-relay LISTEN NAME UPSTREAM ROOTS|- [CERTIFICATE KEY]\n");
    return 2;
  }
  return atl::run(arguments);
}
