// The native API on a real socket for tests: http server and client, real control, a fake node and
// a fake guest.
#pragma once

#include "base/json.h"
#include "base/random.h"
#include "base/strings.h"
#include "control/fake_guest.h"
#include "control/fake_node.h"
#include "control/fixture.h"
#include "http/client.h"
#include "http/server.h"
#include "service/native/native_api.h"

namespace atl::service::native {

inline constexpr const char* kKey = "atoll_0123456789";
inline constexpr const char* kViewerKey = "atoll_viewer";

struct Answer {
  int status = 0;
  http::Headers headers;
  std::string body;
  Json json;
  const Json& at(std::string_view path) const {
    const Json* value = &json;
    for (const auto part : split(path, '.')) {
      const Json* next = value->find(part);
      if (next == nullptr) {
        ADD_FAILURE() << "no " << path << " in " << body;
        return *value;
      }
      value = next;
    }
    return *value;
  }
  std::string text(std::string_view path) const {
    const auto* value = at(path).as_string();
    return value == nullptr ? std::string{} : *value;
  }
};

class NativeApiTest : public testing::Test {
 protected:
  NativeApiTest() {
    node_.guest_socket_of = [this](const std::string&) { return guest_.path(); };
    CHECK(store_->put_api_key(
        {.id = "viewer", .key_sha256 = sha256(kViewerKey), .roles = {"viewer"}}));
  }

  // Runs the script beside server, guest and control.
  void run(Task<> script) {
    const auto done = reactor_.run_until_complete(beside(std::move(script)));
    EXPECT_TRUE(done) << done.error().message;
  }
  Task<> beside(Task<> script) {
    Scope scope{co_await current_context()};
    CO_TRY_DO(co_await identity_.load());
    CO_TRY_DO(co_await identity_.ensure_admin_key(sha256(kKey)));
    CO_TRY_DO(co_await sandboxes_.start());
    CO_TRY_DO(co_await volumes_.start());
    scope.spawn("guest", guest_.run());
    scope.spawn("sandboxes", sandboxes_.run());
    scope.spawn("contexts", contexts_.run());
    scope.spawn("server", server_.run());
    auto result = co_await with_deadline(std::chrono::seconds{60}, std::move(script));
    (void)co_await scope.cancel_and_join();
    co_return std::move(result);
  }

  Task<Answer> call(std::string method, std::string path, std::string body = {},
                    http::Headers headers = {}) {
    http::Client client{reactor_, {.host = "127.0.0.1", .port = server_.port(), .base_path = {}}};
    if (!headers.has("Authorization")) {
      headers.add("Authorization", concat("Bearer ", kKey));
    }
    CO_TRY(const auto response, co_await client.send(std::move(method), std::move(path),
                                                     std::move(headers), std::move(body)));
    Answer answer;
    answer.status = response->status();
    answer.headers = response->headers();
    CO_TRY(answer.body, co_await http::read_all(response->body(), 64U << 20));
    if (answer.headers.get("Content-Type") == "application/json" && !answer.body.empty()) {
      CO_TRY(answer.json, Json::parse(answer.body));
    }
    EXPECT_TRUE(answer.headers.has("x-request-id"));
    co_return std::move(answer);
  }
  Task<std::string> claim() {
    CO_TRY(const auto answer,
           co_await call("POST", "/api/v1/sandboxes",
                         R"({"template":"default","config":{"env_vars":{"A":"1","B":"2"}}})"));
    EXPECT_EQ(answer.status, 201) << answer.body;
    co_return concat("/api/v1/sandboxes/", answer.text("data.sandbox_id"));
  }

  control::TemporaryDirectory directory_;
  SystemWallClock clock_;
  Metrics metrics_;
  io::Reactor reactor_;
  std::unique_ptr<store::Store> store_ = *store::open_sqlite_store(directory_.path() + "/atoll.db");
  control::StoreThread store_thread_{*store_, 100};
  io::OffloadPool pool_{"archive", 1, 100};
  control::FakeNode node_;
  control::FakeGuest guest_{reactor_, directory_.path() + "/guest.sock"};
  control::StoreAccess access_{*store_, &store_thread_};
  control::Identity identity_{access_, clock_};
  control::Sandboxes sandboxes_{access_, node_, clock_, metrics_, {.max_sandboxes = 3}};
  control::Contexts contexts_{reactor_, sandboxes_, clock_};
  control::TreeArchives tree_archives_{pool_};
  control::Snapshots snapshots_{access_, node_, sandboxes_, clock_};
  control::VolumeCells volume_cells_{reactor_, node_, sandboxes_};
  control::Volumes volumes_{access_, node_, sandboxes_, volume_cells_, clock_};
  NativeApi api_{sandboxes_, snapshots_, contexts_,       identity_, clock_,
                 metrics_,   nullptr,    &tree_archives_, &volumes_};
  http::Server server_{reactor_,
                       *io::Listener::bind_tcp("127.0.0.1", 0),
                       [this](http::Exchange& exchange) { return api_.handle(exchange); },
                       {},
                       metrics_};
};

}  // namespace atl::service::native
