// The native API over a real socket: http server and client, real control, a fake node and a fake
// guest. Each test says what a user would see.
#include "service/native/native_api.h"

#include "base/json.h"
#include "base/random.h"
#include "base/strings.h"
#include "control/fake_guest.h"
#include "control/fake_node.h"
#include "control/fixture.h"
#include "http/client.h"
#include "http/server.h"
#include "service/native/byte_range.h"

namespace atl::service::native {
namespace {

constexpr const char* kKey = "atoll_0123456789";
constexpr const char* kViewerKey = "atoll_viewer";

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
    CHECK(store_->put_api_key({.id = "viewer", .key_sha256 = sha256(kViewerKey),
                               .roles = {"viewer"}}));
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
    if (answer.headers.get("Content-Type") == "application/json") {
      CO_TRY(answer.json, Json::parse(answer.body));
    }
    EXPECT_TRUE(answer.headers.has("x-request-id"));
    co_return std::move(answer);
  }
  Task<std::string> claim() {
    CO_TRY(const auto answer, co_await call("POST", "/api/v1/sandboxes",
                                            R"({"template":"default","config":{"env_vars":{"A":"1","B":"2"}}})"));
    EXPECT_EQ(answer.status, 201) << answer.body;
    co_return concat("/api/v1/sandboxes/", answer.text("data.sandbox_id"));
  }

  control::TemporaryDirectory directory_;
  SystemWallClock clock_;
  Metrics metrics_;
  io::Reactor reactor_;
  std::unique_ptr<store::Store> store_ =
      *store::open_sqlite_store(directory_.path() + "/atoll.db");
  io::OffloadPool pool_{"store", 1, 100};
  control::FakeNode node_;
  control::FakeGuest guest_{reactor_, directory_.path() + "/guest.sock"};
  control::StoreAccess access_{*store_, &pool_};
  control::Identity identity_{access_, clock_};
  control::Sandboxes sandboxes_{access_, node_, clock_, metrics_, {.max_sandboxes = 3}};
  control::Contexts contexts_{reactor_, sandboxes_, clock_};
  NativeApi api_{sandboxes_, contexts_, identity_, clock_, metrics_};
  http::Server server_{reactor_, *io::Listener::bind_tcp("127.0.0.1", 0),
                       [this](http::Exchange& exchange) { return api_.handle(exchange); },
                       {}, metrics_};

  Task<> check_meta();
  Task<> check_auth();
  Task<> check_sandboxes();
  Task<> check_bad_bodies();
  Task<> check_commands();
  Task<> check_background();
  Task<> check_files();
  Task<> check_hostile_guest();
};

Task<> NativeApiTest::check_meta() {
  CO_TRY(const auto health, co_await call("GET", "/healthz"));
  EXPECT_EQ(health.status, 200);
  EXPECT_EQ(health.text("status"), "ok");
  CO_TRY(const auto ready, co_await call("GET", "/readyz"));
  EXPECT_EQ(ready.status, 200);
  CO_TRY(const auto metadata, co_await call("GET", "/metadata"));
  EXPECT_EQ(metadata.text("data.gateway_mode"), "direct");
  CO_TRY(const auto metrics, co_await call("GET", "/metrics"));
  EXPECT_NE(metrics.body.find("atoll_service_requests_total{route=\"GET /healthz\",status=\"200\"}"),
            std::string::npos);
  CO_TRY(const auto id, co_await call("GET", "/healthz", {}, {{"x-request-id", "mine-1"}}));
  EXPECT_EQ(id.headers.get("x-request-id"), "mine-1");
  CO_TRY(const auto bad, co_await call("GET", "/healthz", {}, {{"x-request-id", "a b\"c"}}));
  EXPECT_NE(bad.headers.get("x-request-id"), "a b\"c");
  co_return ok();
}
TEST_F(NativeApiTest, HealthMetadataMetricsAndRequestIds) { run(check_meta()); }

Task<> NativeApiTest::check_auth() {
  const std::string path = "/api/v1/sandboxes";
  CO_TRY(const auto wrong, co_await call("GET", path, {}, {{"Authorization", "Bearer nope"}}));
  EXPECT_EQ(wrong.status, 401);
  EXPECT_EQ(wrong.text("error.code"), "unauthorized");
  CO_TRY(const auto scheme, co_await call("GET", path, {}, {{"Authorization", "Basic eA=="}}));
  EXPECT_EQ(scheme.status, 401);
  CO_TRY(const auto hidden, co_await call("GET", "/api/v1/nope", {},
                                          {{"Authorization", "Bearer nope"}}));
  EXPECT_EQ(hidden.status, 401) << "what exists is nobody's business without a key";
  const http::Headers viewer{{"Authorization", concat("Bearer ", kViewerKey)}};
  CO_TRY(const auto read, co_await call("GET", path, {}, viewer));
  EXPECT_EQ(read.status, 200);
  CO_TRY(const auto write, co_await call("POST", path, R"({"template":"default"})", viewer));
  EXPECT_EQ(write.status, 403);
  EXPECT_EQ(write.text("error.code"), "forbidden");
  EXPECT_TRUE(node_.cells.empty());
  co_return ok();
}
TEST_F(NativeApiTest, KeysAndRolesAreChecked) { run(check_auth()); }

Task<> NativeApiTest::check_sandboxes() {
  CO_TRY(const auto path, co_await claim());
  CO_TRY(const auto got, co_await call("GET", path));
  EXPECT_EQ(got.text("data.status"), "running");
  EXPECT_EQ(got.text("data.resources.memory"), "2Gi");
  EXPECT_TRUE(got.json.find("data")->as_object() != nullptr);
  EXPECT_NE(got.body.find("\"expires_at\":null"), std::string::npos);
  CO_TRY(const auto status, co_await call("GET", path + "/status"));
  EXPECT_EQ(status.text("data.template_id"), "default");
  CO_TRY(const auto list, co_await call("GET", "/api/v1/sandboxes?status=running&limit=1"));
  EXPECT_EQ(list.at("data.sandboxes").as_array()->size(), 1U);
  EXPECT_EQ(*list.at("data.has_more").as_bool(), false);
  CO_TRY(const auto bad, co_await call("GET", "/api/v1/sandboxes?limit=1000"));
  EXPECT_EQ(bad.status, 400);
  CO_TRY(const auto deleted, co_await call("DELETE", path));
  EXPECT_EQ(deleted.status, 200);
  CO_TRY(const auto gone, co_await call("GET", path));
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(gone.text("error.code"), "not_found");
  CO_TRY(const auto method, co_await call("PATCH", "/api/v1/sandboxes"));
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.headers.get("Allow"), "POST, GET");
  CO_TRY(const auto route, co_await call("GET", "/api/v1/nothing"));
  EXPECT_EQ(route.status, 404);
  for (int i = 0; i < 3; ++i) {
    CO_TRY_DO(co_await claim());
  }
  CO_TRY(const auto full, co_await call("POST", "/api/v1/sandboxes", R"({"template":"base"})"));
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.text("error.code"), "quota_exceeded");
  co_return ok();
}
TEST_F(NativeApiTest, SandboxesLiveAndGo) { run(check_sandboxes()); }

Task<> NativeApiTest::check_bad_bodies() {
  struct Case {
    std::string body;
    int status;
    std::string word;
  };
  const Case cases[] = {
      {"", 400, "JSON object"},
      {"[1]", 400, "an array"},
      {"{", 400, "not valid JSON"},
      {R"({"template":"default","confg":{}})", 400, "confg"},
      {R"({"template":7})", 400, "a string"},
      {R"({})", 400, "template"},
      {R"({"template":"nope"})", 404, "default"},
      {R"({"template":"default","snapshot_id":"x"})", 400, "not available"},
      {R"({"template":"default","config":{"network":{}}})", 400, "config.network"},
      {R"({"template":"default","config":{"ttl":"5"}})", 400, "config.ttl"},
      {R"({"template":"default","config":{"ttl":-1}})", 400, "from 0"},
      {R"({"template":"default","config":{"env_vars":{"A":1}}})", 400, "config.env_vars.A"},
      {R"({"template":"default","config":{"resources":{"gpu":"1"}}})", 400, "memory, cpu, disk"},
      {R"({"template":"default","config":{"resources":{"memory":"1Mi"}}})", 400, "128Mi"},
      {std::string(2U << 20, ' '), 413, "1048576"},
  };
  for (const auto& test : cases) {
    auto answer = co_await call("POST", "/api/v1/sandboxes", test.body);
    if (!answer) {
      // The server may close on an oversized body before it was all sent.
      EXPECT_EQ(test.status, 413);
      continue;
    }
    EXPECT_EQ(answer->status, test.status) << test.body.substr(0, 80);
    EXPECT_NE(answer->text("error.message").find(test.word), std::string::npos) << answer->body;
  }
  EXPECT_TRUE(node_.cells.empty());
  co_return ok();
}
TEST_F(NativeApiTest, BadBodiesSayWhatToChange) { run(check_bad_bodies()); }

Task<> NativeApiTest::check_commands() {
  CO_TRY(const auto path, co_await claim());
  const std::string contexts = path + "/contexts";
  CO_TRY(const auto mixed, co_await call("POST", contexts,
      R"({"type":"cmd","cmd":{"command":["mixed"]},"wait_until_done":true,"env_vars":{"B":"3"},"ttl_sec":5})"));
  EXPECT_EQ(mixed.status, 201) << mixed.body;
  EXPECT_EQ(mixed.text("data.stdout"), "out\n");
  EXPECT_EQ(mixed.text("data.stderr"), "err\n");
  EXPECT_EQ(mixed.text("data.output_raw"), "out\nerr\n");
  EXPECT_EQ(*mixed.at("data.exit_code").as_integer(), 3);
  EXPECT_EQ(mixed.text("data.state"), "crashed");
  EXPECT_TRUE(mixed.text("data.id").starts_with("ctx-"));
  EXPECT_EQ(guest_.last_spawn.cwd, "/workspace");
  EXPECT_EQ(guest_.last_spawn.user, "user");
  EXPECT_EQ(guest_.last_spawn.timeout_ms, 5000U);
  EXPECT_EQ(guest_.last_spawn.env, (std::vector<std::string>{"A=1", "B=3"}));
  CO_TRY(const auto cat, co_await call("POST", contexts,
      R"({"cmd":{"command":["cat"]},"wait_until_done":true,"stdin":"hällo","cwd":"sub","user":"root"})"));
  EXPECT_EQ(cat.text("data.stdout"), "hällo");
  EXPECT_EQ(cat.text("data.state"), "stopped");
  EXPECT_EQ(guest_.last_spawn.cwd, "/workspace/sub");
  CO_TRY(const auto binary, co_await call("POST", contexts,
      R"({"cmd":{"command":["binary"]},"wait_until_done":true})"));
  EXPECT_EQ(binary.text("data.stdout_base64"), base64_encode("a\xff\xfe"));
  CO_TRY(const auto missing, co_await call("POST", contexts,
      R"({"cmd":{"command":["nope"]},"wait_until_done":true})"));
  EXPECT_EQ(missing.status, 400);
  EXPECT_EQ(missing.text("error.details.reason"), "command_not_found");
  CO_TRY(const auto repl, co_await call("POST", contexts, R"({"type":"repl","repl":{}})"));
  EXPECT_EQ(repl.status, 501);
  EXPECT_EQ(repl.text("error.code"), "unimplemented");
  CO_TRY(const auto unknown, co_await call("POST", contexts, R"({"command":["x"]})"));
  EXPECT_EQ(unknown.status, 400);
  co_return ok();
}
TEST_F(NativeApiTest, CommandsAreRunAndWaitedFor) { run(check_commands()); }

Task<> NativeApiTest::check_background() {
  CO_TRY(const auto path, co_await claim());
  const std::string contexts = path + "/contexts";
  CO_TRY(const auto started, co_await call("POST", contexts,
      R"({"cmd":{"command":["cat"]},"stdin_open":true})"));
  EXPECT_EQ(started.text("data.state"), "running");
  const std::string one = concat(contexts, "/", started.text("data.id"));
  CO_TRY(const auto input, co_await call("POST", one + "/input", R"({"data":"typed"})"));
  EXPECT_EQ(input.status, 200) << input.body;
  CO_TRY(const auto both, co_await call("POST", one + "/input", R"({"data":"x","data_base64":"eA=="})"));
  EXPECT_EQ(both.status, 400);
  CO_TRY(const auto signal, co_await call("POST", one + "/signal", R"({"signal":"SIGTERM"})"));
  EXPECT_EQ(signal.status, 200);
  CO_TRY(const auto no_signal, co_await call("POST", one + "/signal", R"({"signal":"LOUD"})"));
  EXPECT_EQ(no_signal.status, 400);
  CO_TRY(const auto done, co_await call("POST", contexts,
      R"({"cmd":{"command":["mixed"]},"wait_until_done":true})"));
  const std::string finished = concat(contexts, "/", done.text("data.id"));
  CO_TRY(const auto list, co_await call("GET", contexts));
  EXPECT_EQ(list.at("data.contexts").as_array()->size(), 2U);
  CO_TRY(const auto got, co_await call("GET", finished));
  EXPECT_EQ(got.text("data.stderr"), "err\n");
  CO_TRY(const auto late, co_await call("POST", finished + "/input", R"({"data":"x"})"));
  EXPECT_EQ(late.status, 410);
  CO_TRY(const auto stream, co_await call("GET", finished + "/stream?from=0"));
  EXPECT_EQ(stream.headers.get("Content-Type"), "application/x-ndjson");
  const auto lines = split(trim(stream.body), '\n');
  EXPECT_EQ(lines.size(), 3U);
  CO_TRY(const auto first, Json::parse(lines.front()));
  EXPECT_EQ(*first.find("data_base64")->as_string(), base64_encode("out\n"));
  CO_TRY(const auto last, Json::parse(lines.back()));
  EXPECT_EQ(*last.find("type")->as_string(), "exit");
  EXPECT_EQ(*last.find("exit_code")->as_integer(), 3);
  CO_TRY(const auto deleted, co_await call("DELETE", finished));
  EXPECT_EQ(*deleted.at("data.deleted").as_bool(), true);
  CO_TRY(const auto gone, co_await call("GET", finished));
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(gone.text("error.code"), "context_not_found");
  co_return ok();
}
TEST_F(NativeApiTest, BackgroundCommandsAreFedFollowedAndDeleted) { run(check_background()); }

Task<> NativeApiTest::check_files() {
  CO_TRY(const auto path, co_await claim());
  const std::string files = path + "/files";
  const std::string content = random_bytes(1'000'000);
  CO_TRY(const auto written, co_await call("POST", files + "?path=dir/a%20b", content));
  EXPECT_EQ(written.status, 200) << written.body;
  EXPECT_EQ(guest_.files["/workspace/dir/a b"], content);
  CO_TRY(const auto read, co_await call("GET", files + "?path=dir/a%20b"));
  EXPECT_EQ(read.headers.get("Content-Type"), "application/octet-stream");
  EXPECT_TRUE(read.body == content);
  CO_TRY(const auto json, co_await call("GET", files + "?path=dir/a%20b", {},
                                        {{"Accept", "application/json"}}));
  EXPECT_TRUE(base64_decode(json.text("data.content")) == content);
  CO_TRY(const auto range, co_await call("GET", files + "?path=dir/a%20b", {},
                                         {{"Range", "bytes=10-19"}}));
  EXPECT_EQ(range.status, 206);
  EXPECT_EQ(range.headers.get("Content-Range"), "bytes 10-19/1000000");
  EXPECT_TRUE(range.body == content.substr(10, 10));
  CO_TRY(const auto tail, co_await call("GET", files + "?path=dir/a%20b", {},
                                        {{"Range", "bytes=-5"}}));
  EXPECT_TRUE(tail.body == content.substr(999'995));
  CO_TRY(const auto beyond, co_await call("GET", files + "?path=dir/a%20b", {},
                                          {{"Range", "bytes=1000000-"}}));
  EXPECT_EQ(beyond.status, 416);
  CO_TRY(const auto stat, co_await call("GET", files + "/stat?path=dir/a%20b"));
  EXPECT_EQ(stat.text("data.path"), "dir/a b");
  EXPECT_EQ(stat.text("data.mode"), "0644");
  CO_TRY(const auto list, co_await call("GET", files + "/list?path=dir"));
  EXPECT_EQ(list.at("data.entries").as_array()->size(), 1U);
  CO_TRY(const auto missing, co_await call("GET", files + "?path=/none"));
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.text("error.code"), "file_not_found");
  CO_TRY(const auto made, co_await call("POST", files + "?path=d&mkdir=true"));
  EXPECT_EQ(made.status, 201);
  CO_TRY(const auto moved, co_await call("POST", files + "/move",
                                         R"({"source":"a","destination":"b"})"));
  EXPECT_EQ(moved.status, 200);
  CO_TRY(const auto mode, co_await call("POST", files + "/chmod", R"({"path":"a","mode":"888"})"));
  EXPECT_EQ(mode.status, 400);
  CO_TRY(const auto refused, co_await call("POST", files + "?path=/forbidden/x", "abc"));
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(refused.text("error.code"), "permission_denied");
  CO_TRY(const auto no_path, co_await call("GET", files));
  EXPECT_EQ(no_path.status, 400);
  CO_TRY(const auto deleted, co_await call("DELETE", files + "?path=dir/a%20b"));
  EXPECT_EQ(deleted.status, 200);
  EXPECT_TRUE(guest_.files.empty());
  co_return ok();
}
TEST_F(NativeApiTest, FilesPassThroughWhole) { run(check_files()); }

// A guest that promises a file and breaks off: the client must not take half for the whole.
Task<> break_off(io::Stream& stream) {
  std::string buffer(1024, '\0');
  CO_TRY_DO(co_await stream.read(buffer));
  const guest::FileInfo info{.name = "a", .path = "/a", .size = 1000};
  co_return co_await stream.write(guest::encode_frame(guest::Kind::kFile, guest::encode(info)) +
                                  guest::encode_frame(guest::Kind::kData, "half"));
}

Task<> NativeApiTest::check_hostile_guest() {
  CO_TRY(const auto path, co_await claim());
  guest_.script = [](io::Stream& stream) { return break_off(stream); };
  auto half = co_await call("GET", path + "/files?path=/a");
  EXPECT_FALSE(half);
  auto wrong = co_await call("GET", path + "/contexts");
  EXPECT_TRUE(wrong);
  EXPECT_EQ(wrong->status, 502);
  EXPECT_EQ(wrong->text("error.code"), "unavailable");
  CO_TRY(const auto alive, co_await call("GET", path));
  EXPECT_EQ(alive.status, 200);
  co_return ok();
}
TEST_F(NativeApiTest, ALyingGuestIsAnErrorNotHalfAFile) { run(check_hostile_guest()); }

TEST(ByteRange, OneRangeOrNone) {
  EXPECT_FALSE(parse_byte_range(""));
  EXPECT_FALSE(parse_byte_range("bytes=1-2,4-5"));
  EXPECT_FALSE(parse_byte_range("lines=1-2"));
  EXPECT_FALSE(parse_byte_range("bytes=5-2"));
  EXPECT_FALSE(parse_byte_range("bytes=-"));
  EXPECT_EQ(resolve_range(*parse_byte_range("bytes=2-"), 10)->length, 8U);
  EXPECT_EQ(resolve_range(*parse_byte_range("bytes=0-99"), 10)->length, 10U);
  EXPECT_EQ(resolve_range(*parse_byte_range("bytes=-3"), 10)->offset, 7U);
  EXPECT_FALSE(resolve_range(*parse_byte_range("bytes=0-"), 0));
  EXPECT_FALSE(resolve_range(*parse_byte_range("bytes=-0"), 10));
}

}  // namespace
}  // namespace atl::service::native
