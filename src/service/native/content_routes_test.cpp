// Commands and files as a user sees them.
#include <algorithm>

#include "control/interpreter.h"
#include "control/limits.h"
#include "service/native/api_fixture.h"
#include "service/native/byte_range.h"

namespace atl::service::native {
namespace {

class ContentApiTest : public NativeApiTest {
 protected:
  Task<> check_commands();
  Task<> check_background();
  Task<> check_client_gone();
  Task<> check_other_teams_code();
  Task<> check_lost_sandboxes();
  Task<> fill_memory(control::SandboxRef sandbox);
  Task<> check_files();
  Task<> check_hostile_guest();
  Task<> check_listing();
};

Task<> ContentApiTest::check_commands() {
  CO_TRY(const auto path, co_await claim());
  const std::string contexts = path + "/contexts";
  CO_TRY(const auto mixed,
         co_await call("POST", contexts,
                       R"({"type":"cmd","cmd":{"command":["mixed"]},"wait_until_done":true,)"
                       R"("env_vars":{"B":"3"},"ttl_sec":5})"));
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
  CO_TRY(const auto cat,
         co_await call("POST", contexts,
                       R"({"cmd":{"command":["cat"]},"wait_until_done":true,"stdin":"hällo",)"
                       R"("cwd":"sub","user":"root"})"));
  EXPECT_EQ(cat.text("data.stdout"), "hällo");
  EXPECT_EQ(cat.text("data.state"), "stopped");
  EXPECT_EQ(guest_.last_spawn.cwd, "/workspace/sub");
  CO_TRY(
      const auto binary,
      co_await call("POST", contexts, R"({"cmd":{"command":["binary"]},"wait_until_done":true})"));
  EXPECT_EQ(binary.text("data.stdout_base64"), base64_encode("a\xff\xfe"));
  CO_TRY(const auto missing,
         co_await call("POST", contexts, R"({"cmd":{"command":["nope"]},"wait_until_done":true})"));
  EXPECT_EQ(missing.status, 400);
  EXPECT_EQ(missing.text("error.details.reason"), "command_not_found");
  CO_TRY(const auto repl,
         co_await call("POST", contexts, R"({"type":"repl","repl":{"alias":"ruby"}})"));
  EXPECT_EQ(repl.status, 400) << "the image has no ruby";
  EXPECT_EQ(repl.text("error.code"), "create_failed");
  CO_TRY(const auto unknown, co_await call("POST", contexts, R"({"command":["x"]})"));
  EXPECT_EQ(unknown.status, 400);
  co_return ok();
}
TEST_F(ContentApiTest, CommandsAreRunAndWaitedFor) {
  run(check_commands());
}

Task<> ContentApiTest::check_background() {
  CO_TRY(const auto path, co_await claim());
  const std::string contexts = path + "/contexts";
  CO_TRY(const auto started,
         co_await call("POST", contexts, R"({"cmd":{"command":["cat"]},"stdin_open":true})"));
  EXPECT_EQ(started.text("data.state"), "running");
  const std::string one = concat(contexts, "/", started.text("data.id"));
  CO_TRY(const auto input, co_await call("POST", one + "/input", R"({"data":"typed"})"));
  EXPECT_EQ(input.status, 200) << input.body;
  CO_TRY(const auto both,
         co_await call("POST", one + "/input", R"({"data":"x","data_base64":"eA=="})"));
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
TEST_F(ContentApiTest, BackgroundCommandsAreFedFollowedAndDeleted) {
  run(check_background());
}

Task<> ContentApiTest::check_files() {
  CO_TRY(const auto path, co_await claim());
  const std::string files = path + "/files";
  const std::string content = random_bytes(1'000'000);
  CO_TRY(const auto written, co_await call("POST", files + "?path=dir/a%20b", content));
  EXPECT_EQ(written.status, 200) << written.body;
  EXPECT_EQ(guest_.files["/workspace/dir/a b"], content);
  CO_TRY(const auto read, co_await call("GET", files + "?path=dir/a%20b"));
  EXPECT_EQ(read.headers.get("Content-Type"), "application/octet-stream");
  EXPECT_TRUE(read.body == content);
  CO_TRY(const auto json,
         co_await call("GET", files + "?path=dir/a%20b", {}, {{"Accept", "application/json"}}));
  EXPECT_TRUE(base64_decode(json.text("data.content")) == content);
  CO_TRY(const auto range,
         co_await call("GET", files + "?path=dir/a%20b", {}, {{"Range", "bytes=10-19"}}));
  EXPECT_EQ(range.status, 206);
  EXPECT_EQ(range.headers.get("Content-Range"), "bytes 10-19/1000000");
  EXPECT_TRUE(range.body == content.substr(10, 10));
  CO_TRY(const auto tail,
         co_await call("GET", files + "?path=dir/a%20b", {}, {{"Range", "bytes=-5"}}));
  EXPECT_TRUE(tail.body == content.substr(999'995));
  CO_TRY(const auto beyond,
         co_await call("GET", files + "?path=dir/a%20b", {}, {{"Range", "bytes=1000000-"}}));
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
  CO_TRY(const auto moved,
         co_await call("POST", files + "/move", R"({"source":"a","destination":"b"})"));
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
TEST_F(ContentApiTest, FilesPassThroughWhole) {
  run(check_files());
}

// A guest that promises a file and breaks off: the client must not take half for the whole.
Task<> break_off(io::Stream& stream) {
  std::string buffer(1024, '\0');
  CO_TRY_DO(co_await stream.read(buffer));
  const guest::FileInfo info{.name = "a", .path = "/a", .size = 1000};
  co_return co_await stream.write(guest::encode_frame(guest::Kind::kFile, guest::encode(info)) +
                                  guest::encode_frame(guest::Kind::kData, "half"));
}

Task<> ContentApiTest::check_hostile_guest() {
  CO_TRY(const auto path, co_await claim());
  guest_.script = [](io::Stream& stream) { return break_off(stream); };
  auto half = co_await call("GET", path + "/files?path=/a");
  EXPECT_FALSE(half);
  auto half_a_list = co_await call("GET", path + "/files/list?path=/");
  EXPECT_FALSE(half_a_list);
  auto wrong = co_await call("GET", path + "/contexts");
  EXPECT_TRUE(wrong);
  EXPECT_EQ(wrong->status, 502);
  EXPECT_EQ(wrong->text("error.code"), "unavailable");
  CO_TRY(const auto alive, co_await call("GET", path));
  EXPECT_EQ(alive.status, 200);
  co_return ok();
}
TEST_F(ContentApiTest, ALyingGuestIsAnErrorNotHalfAFile) {
  run(check_hostile_guest());
}

Task<> send_many_files(io::Stream& stream) {
  std::string buffer(1024, '\0');
  CO_TRY_DO(co_await stream.read(buffer));
  for (int i = 0; i < 5000; ++i) {
    const guest::FileInfo info{.name = concat("f", i), .path = concat("/f", i)};
    CO_TRY_DO(co_await stream.write(guest::encode_frame(guest::Kind::kFile, guest::encode(info))));
  }
  co_return co_await stream.write(guest::encode_frame(guest::Kind::kEnd, ""));
}

Task<> refuse_listing(io::Stream& stream) {
  std::string buffer(1024, '\0');
  CO_TRY_DO(co_await stream.read(buffer));
  co_return co_await stream.write(guest::encode_frame(
      guest::Kind::kError,
      guest::encode(Error{Code::kNotFound, "no such directory", "file_not_found"})));
}

Task<> ContentApiTest::check_listing() {
  CO_TRY(const auto path, co_await claim());
  CO_TRY(const auto empty, co_await call("GET", path + "/files/list?path=/"));
  EXPECT_EQ(empty.body, R"({"success":true,"data":{"entries":[]}})");
  guest_.script = [](io::Stream& stream) { return send_many_files(stream); };
  CO_TRY(const auto many, co_await call("GET", path + "/files/list?path=/"));
  EXPECT_EQ(many.status, 200);
  const auto* entries = many.at("data.entries").as_array();
  EXPECT_TRUE(entries != nullptr && entries->size() == 5000);
  EXPECT_EQ(*entries->back().find("name")->as_string(), "f4999");
  guest_.script = [](io::Stream& stream) { return refuse_listing(stream); };
  CO_TRY(const auto refused, co_await call("GET", path + "/files/list?path=/"));
  EXPECT_EQ(refused.status, 404);
  EXPECT_EQ(refused.text("error.code"), "file_not_found");
  co_return ok();
}
TEST_F(ContentApiTest, AListingStreams) {
  run(check_listing());
}

// The client goes away while it waits for a command: the command goes on.
Task<> ContentApiTest::check_client_gone() {
  CO_TRY(const auto path, co_await claim());
  const std::string body = R"({"cmd":{"command":["sleep"]},"wait_until_done":true})";
  {
    CO_TRY(const auto stream, co_await io::connect_tcp(reactor_, "127.0.0.1", server_.port()));
    const std::string request =
        concat("POST ", path, "/contexts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ", kKey,
               "\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
    CO_TRY_DO(co_await stream->write(request));
    while (guest_.processes.empty()) {
      CO_TRY_DO(co_await sleep_for(std::chrono::milliseconds{1}));
    }
  }
  // Its answer, given to nobody, is counted under the status of a request that was given up.
  const std::string_view counted = "/contexts\",status=\"499\"} 1";
  while (metrics_.render().find(counted) == std::string::npos) {
    CO_TRY_DO(co_await sleep_for(std::chrono::milliseconds{1}));
  }
  CO_TRY(const auto list, co_await call("GET", path + "/contexts"));
  EXPECT_EQ(list.at("data.contexts").as_array()->size(), 1U);
  EXPECT_EQ(list.at("data.contexts").as_array()->front().find("state")->as_string()->c_str(),
            std::string{"running"});
  co_return ok();
}
TEST_F(ContentApiTest, AWaitingClientThatLeavesDoesNotEndTheCommand) {
  run(check_client_gone());
}

// Somebody else's sandbox is not there, whatever goes on in it.
Task<> ContentApiTest::check_other_teams_code() {
  struct Silent {
    static Task<> serve() {
      Event never;
      co_return co_await never.wait();
    }
    static Task<> ignore(Task<Answer> call) {
      (void)co_await std::move(call);
      co_return ok();
    }
  };
  CO_TRY(const auto path, co_await claim());
  bool asked = false;
  guest_.script = [&asked](io::Stream&) {
    asked = true;
    return Silent::serve();
  };
  const std::string exec = path + "/contexts/ctx-00000000/exec";
  const std::string body = R"({"data":"1","timeout_ms":50})";
  Scope scope{co_await current_context()};
  scope.spawn("owner", Silent::ignore(call("POST", exec, R"({"data":"1"})")));
  while (!asked) {
    CO_TRY_DO(co_await sleep_for(std::chrono::milliseconds{1}));
  }
  auto answer =
      co_await contexts_.interpreters().execute({"strangers", path.substr(path.rfind('/') + 1)},
                                                "ctx-00000000", {.code = "1", .timeout_ms = 50});
  auto own = co_await call("POST", exec, body);
  (void)co_await scope.cancel_and_join();
  EXPECT_TRUE(own && own->text("data.outcome") == "never_started");
  EXPECT_TRUE(!answer && answer.error().code == Code::kNotFound);
  co_return ok();
}
TEST_F(ContentApiTest, CodeInASandboxOfAnotherTeamIsNotFoundAtOnce) {
  run(check_other_teams_code());
}

// Until nothing more is remembered about contexts.
Task<> ContentApiTest::fill_memory(control::SandboxRef sandbox) {
  control::ContextRequest request{.command = {"sleep"}};
  request.env["A"] = std::string(60'000, 'x');
  for (std::size_t bytes = 0; bytes <= control::kMaxRememberedBytes; bytes += 60'000) {
    CO_TRY_DO(co_await contexts_.create(sandbox, request));
  }
  co_return ok();
}

Task<> ContentApiTest::check_lost_sandboxes() {
  const auto ref_of = [this](std::string path) {
    const auto id = path.substr(path.rfind('/') + 1);
    for (const auto& each : store_->list_sandboxes().value()) {
      if (each.id == id) {
        return control::SandboxRef{each.team_id, id};
      }
    }
    return control::SandboxRef{};
  };
  CO_TRY(const auto first, co_await claim());
  CO_TRY_DO(co_await fill_memory(ref_of(first)));
  CO_TRY_DO(co_await call("DELETE", first));
  CO_TRY(const auto second, co_await claim());
  const auto sandbox = ref_of(second);
  control::ContextRequest request{.command = {"sleep"}};
  request.env["KEPT"] = "1";
  CO_TRY(const auto made, co_await contexts_.create(sandbox, request));
  CO_TRY_DO(co_await contexts_.restart(sandbox, made.process.process_id));
  const auto& env = guest_.last_spawn.env;
  EXPECT_TRUE(std::ranges::find(env, "KEPT=1") != env.end());
  co_return ok();
}
TEST_F(ContentApiTest, ContextsOfLostSandboxesAreForgotten) {
  run(check_lost_sandboxes());
}

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
