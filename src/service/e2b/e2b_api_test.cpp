// Who gets in: keys, roles, teams, tokens. What a sandbox does is asked of real ones elsewhere.
#include "service/e2b/e2b_api.h"

#include <sqlite3.h>

#include "service/e2b/file_signature.h"
#include "service/e2b/health_routes.h"
#include "service/e2b/sandboxes/lifecycle_routes.h"
#include "service/e2b/sandboxes/list_routes.h"
#include "service/e2b/sandboxes/log_routes.h"
#include "service/e2b/sandboxes/metric_routes.h"
#include "service/e2b/sandboxes/state_routes.h"
#include "service/native/api_fixture.h"

namespace atl::service::e2b {
namespace {

// Templates that were never built: their id is their name.
class PlainNames final : public TemplateNames {
 public:
  explicit PlainNames(const control::Sandboxes& sandboxes) : sandboxes_(sandboxes) {}
  Result<std::string> resolve(std::string_view team_id, std::string_view asked) const override {
    TRY(const auto found, sandboxes_.templates().find(asked, team_id));
    return found.name;
  }
  bool taken(std::string_view team_id, std::string_view alias) const override {
    return resolve(team_id, alias).has_value();
  }
  TemplateName describe(std::string_view name) const override {
    return {std::string{name}, std::string{name}};
  }

 private:
  const control::Sandboxes& sandboxes_;
};

// The store has one team and no way to make another; its file has.
void make_team(const std::string& file) {
  sqlite3* database = nullptr;
  CHECK(::sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  CHECK(::sqlite3_exec(database, "INSERT INTO teams VALUES ('other-team', 'other', 0)", nullptr,
                       nullptr, nullptr) == SQLITE_OK);
  ::sqlite3_close(database);
}

using native::Answer;
constexpr const char* kOtherKey = "e2b_4711";

class E2bApiTest : public native::NativeApiTest {
 protected:
  E2bApiTest() {
    make_team(directory_.path() + "/atoll.db");
    CHECK(store_->put_api_key({.id = "other",
                               .team_id = "other-team",
                               .key_sha256 = sha256("atoll_4711"),
                               .roles = {"developer"}}));
    add_health_routes(dialect_.routes());
    lifecycle_.add_to(dialect_.routes());
    lists_.add_to(dialect_.routes());
    states_.add_to(dialect_.routes());
    metric_routes_.add_to(dialect_.routes());
    logs_.add_to(dialect_.routes());
    dialect_.on_envd([](E2bExchange& exchange, const SandboxTarget& target) {
      return exchange.respond_json(200, Json::object({{"id", target.sandbox.sandbox_id},
                                                      {"team", target.sandbox.team_id},
                                                      {"right", target.token_right},
                                                      {"entitled", target.entitled}}));
    });
  }

  void run_with_e2b(Task<> script) { run(with_server(std::move(script))); }
  Task<> with_server(Task<> script) {
    Scope scope{co_await current_context()};
    scope.spawn("e2b", e2b_server_.run());
    auto result = co_await std::move(script);
    (void)co_await scope.cancel_and_join();
    co_return std::move(result);
  }
  Task<Answer> ask(std::string method, std::string path, http::Headers headers,
                   std::string body = {}) {
    http::Url url{.host = "127.0.0.1", .port = e2b_server_.port(), .base_path = {}};
    if (headers.has("Host")) {
      url.host = headers.get("Host");
      url.address = "127.0.0.1";
    }
    http::Client client{reactor_, url};
    CO_TRY(const auto response, co_await client.send(std::move(method), std::move(path),
                                                     std::move(headers), std::move(body)));
    Answer answer;
    answer.status = response->status();
    answer.headers = response->headers();
    CO_TRY(answer.body, co_await http::read_all(response->body(), 1U << 20));
    if (!answer.body.empty()) {
      CO_TRY(answer.json, Json::parse(answer.body));
    }
    co_return std::move(answer);
  }
  static http::Headers key(const char* text) { return {{"X-API-Key", text}}; }
  Task<bool> enters(http::Headers headers) {
    CO_TRY(const auto answer, co_await ask("GET", "/contexts", std::move(headers)));
    co_return *answer.at("entitled").as_bool();
  }
  Task<Answer> make() {
    return ask("POST", "/v2/sandboxes", key(native::kKey), R"({"templateID": "default"})");
  }

  Task<> check_teams();
  Task<> check_roles();
  Task<> check_targets();
  Task<> check_strangers();
  Task<> check_usual_terms();
  Task<> check_others();

  control::SandboxLog log_{sandboxes_, clock_};
  control::SandboxTerms terms_{access_, sandboxes_, clock_};
  const control::AccessTokens tokens_{secrets::Plaintext{"seed"}};
  const control::PublicNames names_ =
      *control::make_public_names("apps.test", "", "127.0.0.1", 80, false);
  const PlainNames template_names_{sandboxes_};
  const SandboxParts parts_{sandboxes_, terms_,          snapshots_, log_,
                            tokens_,    template_names_, names_,     clock_};
  E2bApi dialect_{{sandboxes_, terms_, tokens_, identity_, log_, names_, clock_, metrics_}};
  LifecycleRoutes lifecycle_{parts_};
  ListRoutes lists_{parts_};
  StateRoutes states_{parts_, contexts_};
  MetricRoutes metric_routes_{parts_};
  LogRoutes logs_{parts_, log_};
  const http::Handler native_ = [this](http::Exchange& exchange) { return api_.handle(exchange); };
  http::Server e2b_server_{
      reactor_,
      *io::Listener::bind_tcp("127.0.0.1", 0),
      [this](http::Exchange& exchange) { return dialect_.handle(exchange, native_); },
      {},
      metrics_};
};

Task<> E2bApiTest::check_teams() {
  CO_TRY(const auto made, co_await make());
  EXPECT_EQ(made.status, 201) << made.body;
  const std::string id = made.text("sandboxID");
  const std::pair<const char*, std::string> requests[] = {{"GET", ""},
                                                          {"DELETE", ""},
                                                          {"POST", "/pause"},
                                                          {"POST", "/connect"},
                                                          {"POST", "/resume"},
                                                          {"POST", "/timeout"},
                                                          {"POST", "/refreshes"},
                                                          {"POST", "/fork"},
                                                          {"POST", "/snapshots"},
                                                          {"GET", "/metrics"},
                                                          {"GET", "/logs"}};
  for (const auto& [method, verb] : requests) {
    CO_TRY(const auto answer,
           co_await ask(method, concat("/sandboxes/", id, verb), key(kOtherKey),
                        method == std::string_view{"POST"} ? R"({"timeout": 5})" : ""));
    EXPECT_EQ(answer.status, 404) << method << verb << answer.body;
    EXPECT_EQ(*answer.at("code").as_integer(), 404);
  }
  CO_TRY(const auto list, co_await ask("GET", "/v2/sandboxes", key(kOtherKey)));
  EXPECT_EQ(list.body, "[]");
  EXPECT_EQ(list.headers.get("X-Total-Running"), "0");
  CO_TRY(const auto many,
         co_await ask("GET", concat("/sandboxes/metrics?sandbox_ids=", id), key(kOtherKey)));
  EXPECT_EQ(many.body, R"({"sandboxes":{}})");
  CO_TRY(const auto taken,
         co_await ask("POST", concat("/sandboxes/", id, "/snapshots"), key(native::kKey), "{}"));
  EXPECT_EQ(taken.status, 201) << taken.body;
  CO_TRY(const auto theirs, co_await ask("GET", "/snapshots", key(kOtherKey)));
  EXPECT_EQ(theirs.body, "[]");
  const std::string snapshot = taken.text("snapshotID");
  CO_TRY(const auto steal, co_await ask("POST", "/v2/sandboxes", key(kOtherKey),
                                        Json::object({{"templateID", snapshot}}).dump()));
  EXPECT_EQ(steal.status, 404) << steal.body;
  CO_TRY(const auto removal,
         co_await ask("DELETE", concat("/templates/", snapshot), key(kOtherKey)));
  EXPECT_EQ(removal.status, 404);
  co_return ok();
}
TEST_F(E2bApiTest, TeamsDoNotSeeEachOther) {
  run_with_e2b(check_teams());
}

Task<> E2bApiTest::check_roles() {
  CO_TRY(const auto made, co_await make());
  const std::string path = concat("/sandboxes/", made.text("sandboxID"));
  CO_TRY(const auto seen, co_await ask("GET", path, key(native::kViewerKey)));
  EXPECT_EQ(seen.status, 200);
  EXPECT_FALSE(seen.body.contains("envdAccessToken")) << "who may only look runs nothing";
  CO_TRY(const auto owned, co_await ask("GET", path, key(native::kKey)));
  EXPECT_EQ(owned.text("envdAccessToken"), made.text("envdAccessToken"));
  for (const auto* verb : {"/pause", "/timeout", "/fork", "/snapshots", "/connect"}) {
    CO_TRY(const auto refused, co_await ask("POST", concat(path, verb), key(native::kViewerKey)));
    EXPECT_EQ(refused.status, 403) << verb;
  }
  CO_TRY(const auto nobody, co_await ask("GET", path, {}));
  EXPECT_EQ(nobody.status, 401);
  co_return ok();
}
TEST_F(E2bApiTest, RolesAreChecked) {
  run_with_e2b(check_roles());
}

Task<> E2bApiTest::check_targets() {
  CO_TRY(const auto made, co_await make());
  const std::string id = made.text("sandboxID");
  const std::string token = made.text("envdAccessToken");
  http::Headers headers{{"E2b-Sandbox-Id", id}, {"E2b-Sandbox-Port", "49983"}};
  CO_TRY(const auto without, co_await ask("GET", "/any/path", headers));
  EXPECT_EQ(*without.at("right").as_bool(), false);
  headers.set("X-Access-Token", token.substr(1));
  CO_TRY(const auto shorter, co_await ask("GET", "/any/path", headers));
  EXPECT_EQ(*shorter.at("right").as_bool(), false);
  headers.set("X-Access-Token", token);
  CO_TRY(const auto right, co_await ask("GET", "/any/path", headers));
  EXPECT_EQ(*right.at("right").as_bool(), true);
  EXPECT_EQ(right.text("id"), id);
  CO_TRY(const auto named,
         co_await ask("GET", "/", {{"Host", concat("49983-", id, ".apps.test")}}));
  EXPECT_EQ(named.text("id"), id);
  CO_TRY(const auto gone, co_await ask("GET", "/", {{"Host", "49983-inobody.apps.test"}}));
  EXPECT_EQ(gone.status, 502);
  headers.set("E2b-Sandbox-Port", "49999");
  CO_TRY(const auto nothing, co_await ask("GET", "/", headers));
  EXPECT_EQ(nothing.status, 501) << "no part serves it here";
  EXPECT_EQ(made.text("domain"), "apps.test");
  co_return ok();
}
TEST_F(E2bApiTest, TargetsAreFoundAndTheirTokensCompared) {
  run_with_e2b(check_targets());
}

// Paused, and asked with and without what opens it.
Task<> E2bApiTest::check_strangers() {
  CO_TRY(const auto made, co_await ask("POST", "/v2/sandboxes", key(native::kKey),
                                       R"({"templateID": "default", "autoPause": true,
                                           "autoResume": {"enabled": true}})"));
  EXPECT_EQ(made.status, 201) << made.body;
  const std::string id = made.text("sandboxID");
  const std::string token = made.text("envdAccessToken");
  const auto paused = [&] {
    return sandboxes_.get_of_any_team(id)->status == control::SandboxStatus::kPaused;
  };
  const http::Headers agent{{"E2b-Sandbox-Id", id}, {"E2b-Sandbox-Port", "49983"}};
  http::Headers wrong = agent;
  wrong.set("X-Access-Token", std::string(token.size(), '0'));
  http::Headers contexts = wrong;
  contexts.set("E2b-Sandbox-Port", "49999");
  CO_TRY(const auto stopped,
         co_await ask("POST", concat("/sandboxes/", id, "/pause"), key(native::kKey), "{}"));
  EXPECT_EQ(stopped.status, 204) << stopped.body;
  const auto link = [&](std::string_view with, std::string_view expiration) {
    return concat("/files?path=a&signature_expiration=", expiration, "&signature=",
                  http::percent_encode(sign_file("a", "read", "", with, expiration)));
  };
  const std::tuple<std::string, http::Headers, int> refused[] = {
      {"/health", agent, 502},
      {"/envs", agent, 502},
      {"/envs", wrong, 502},
      {"/contexts", contexts, 502},
      {link("other", "99999999999"), agent, 502},
      {link(token, "1"), agent, 502},
      {link(token, "1"), {}, 401},
      {link("other", "99999999999"), {}, 401}};
  for (const auto& [path, headers, status] : refused) {
    CO_TRY(const auto answer, co_await ask("GET", path, headers));
    EXPECT_EQ(answer.status, status) << path << answer.body;
    EXPECT_TRUE(paused()) << path;
  }
  CO_TRY(const auto opened, co_await ask("GET", link(token, "99999999999"), {}));
  EXPECT_EQ(opened.status, 200) << opened.body;
  EXPECT_FALSE(paused());
  co_return ok();
}
TEST_F(E2bApiTest, StrangersWakeNothing) {
  run_with_e2b(check_strangers());
}

// Made by the native API: nobody said that its ports are public.
Task<> E2bApiTest::check_usual_terms() {
  dialect_.on_interpreter([](E2bExchange& exchange, const SandboxTarget& target) {
    return exchange.respond_json(200, Json::object({{"entitled", target.entitled}}));
  });
  CO_TRY(const auto made, co_await make());
  const std::string team_id = sandboxes_.get_of_any_team(made.text("sandboxID"))->team_id;
  CO_TRY(const auto claimed,
         co_await sandboxes_.claim_all({.team_id = team_id, .template_name = "default"}));
  const std::string id = claimed.sandboxes.front().id;
  http::Headers headers{{"E2b-Sandbox-Id", id}, {"E2b-Sandbox-Port", "49999"}};
  CO_TRY(const bool nobody, co_await enters(headers));
  EXPECT_FALSE(nobody);
  headers.set("E2B-Traffic-Access-Token", tokens_.traffic_token(id));
  CO_TRY(const bool visitor, co_await enters(headers));
  EXPECT_TRUE(visitor);
  headers.set("X-Access-Token", "wrong");
  CO_TRY(const bool liar, co_await enters(headers));
  EXPECT_FALSE(liar);
  headers = {{"E2b-Sandbox-Id", id},
             {"E2b-Sandbox-Port", "49999"},
             {"X-Access-Token", tokens_.agent_token(id)}};
  CO_TRY(const bool owner, co_await enters(headers));
  EXPECT_TRUE(owner);
  headers = {{"E2b-Sandbox-Id", made.text("sandboxID")}, {"E2b-Sandbox-Port", "49999"}};
  CO_TRY(const bool guest, co_await enters(headers));
  EXPECT_TRUE(guest) << "made for public traffic";
  co_return ok();
}
TEST_F(E2bApiTest, ContextsAreOpenOnlyWhereTrafficIsPublic) {
  run_with_e2b(check_usual_terms());
}

Task<> E2bApiTest::check_others() {
  CO_TRY(const auto health, co_await ask("GET", "/healthz", {}));
  EXPECT_EQ(health.text("status"), "ok") << "what is not ours goes on";
  CO_TRY(const auto bad, co_await ask("POST", "/v2/sandboxes", key(native::kKey), "[1]"));
  EXPECT_EQ(bad.status, 400);
  CO_TRY(const auto unknown, co_await ask("GET", "/v2/never-heard-of", key(native::kKey)));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(*unknown.at("code").as_integer(), 404);
  // Three are allowed here.
  for (int i = 0; i < 3; ++i) {
    CO_TRY(const auto made, co_await make());
    EXPECT_EQ(made.status, 201) << made.body;
  }
  CO_TRY(const auto full, co_await make());
  EXPECT_EQ(full.status, 429) << full.body;
  EXPECT_EQ(full.headers.get("Retry-After"), "1");
  co_return ok();
}
TEST_F(E2bApiTest, OtherRequestsGoOnAndErrorsHaveTheirStatusAsCode) {
  run_with_e2b(check_others());
}

}  // namespace
}  // namespace atl::service::e2b
