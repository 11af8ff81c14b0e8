// Whole invocations against the fake server.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/fd.h"
#include "base/strings.h"
#include "cli/fake_api.h"

namespace atl::cli {
namespace {

namespace fs = std::filesystem;

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/atoll-cli-test-XXXXXX";
    CHECK(::mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(std::string_view name) const { return concat(path_, "/", name); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void write_file(const std::string& path, std::string_view content) {
  std::ofstream{path, std::ios::binary} << content;
}

std::string slurp(const std::string& path) {
  return read_file(path).value_or("<unreadable>");
}

std::string text_of(const Json& json, std::string_view key) {
  const Json* member = json.find(key);
  return member != nullptr && member->as_string() ? *member->as_string() : "";
}

TEST(Run, StreamsBothOutputsAndEndsWithTheCommandsStatus) {
  FakeApi api;
  api.process.stream = FakeApi::output_line("stdout", "one\n", 0) +
                       FakeApi::output_line("stderr", "two\n", 4) +
                       FakeApi::output_line("stdout", "three\n", 8) + FakeApi::exit_line(3);
  const auto outcome = api.run({"run", "--rm", "--", "sh", "-c", "x"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.output, "one\nthree\n");
  EXPECT_EQ(outcome.error, "two\n");
  EXPECT_TRUE(api.was_asked("DELETE /api/v1/sandboxes/sb-1"));
  ASSERT_EQ(api.contexts.size(), 1U);
  EXPECT_EQ(api.contexts[0].find("cmd")->find("command")->dump(), R"(["sh","-c","x"])");
  EXPECT_EQ(api.contexts[0].find("stdin_open"), nullptr);
}

TEST(Run, SendsWhatWasAskedFor) {
  FakeApi api;
  api.process.stream = FakeApi::exit_line(0);
  const auto outcome =
      api.run({"run", "--rm", "-t", "node", "--memory", "1Gi", "--cpu", "2", "-u", "root", "-w",
               "/srv", "-e", "A=1", "--timeout", "30", "--", "true"});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(api.created.at(0).dump(),
            R"({"template":"node","config":{"resources":{"memory":"1Gi","cpu":"2"}}})");
  const auto& context = api.contexts.at(0);
  EXPECT_EQ(text_of(context, "user"), "root");
  EXPECT_EQ(text_of(context, "cwd"), "/srv");
  EXPECT_EQ(context.find("env_vars")->dump(), R"({"A":"1"})");
  EXPECT_EQ(*context.find("timeout_ms")->as_integer(), 30000);
}

TEST(Run, KeepsTheSandboxAndSaysItsId) {
  FakeApi api;
  api.process.stream = FakeApi::exit_line(0);
  const auto outcome = api.run({"run", "--", "true"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.error, "sb-1\n");
  EXPECT_FALSE(api.was_asked("DELETE /api/v1/sandboxes/sb-1"));
  EXPECT_TRUE(api.was_asked("DELETE /api/v1/sandboxes/sb-1/contexts/ctx-1"));
}

TEST(Run, OwnFailuresAre125AndStillDelete) {
  FakeApi api;
  api.process.create_status = 500;
  api.process.create_error = "internal_error";
  auto outcome = api.run({"run", "--rm", "--", "x"});
  EXPECT_EQ(outcome.status, 125);
  EXPECT_EQ(outcome.error, "atoll: fake internal_error\n");
  EXPECT_TRUE(api.was_asked("DELETE /api/v1/sandboxes/sb-1"));

  api.process.create_status = 400;
  api.process.create_error = "command_not_found";
  EXPECT_EQ(api.run({"run", "--rm", "--", "x"}).status, 127);
  api.process.create_error = "command_not_executable";
  EXPECT_EQ(api.run({"run", "--rm", "--", "x"}).status, 126);
  api.create_sandbox_status = 429;
  outcome = api.run({"run", "--rm", "--", "x"});
  EXPECT_EQ(outcome.status, 125);
  EXPECT_NE(outcome.error.find("hint: free some"), std::string::npos);
  EXPECT_EQ(api.run({"run", "--bad"}).status, 125);
}

TEST(Run, ForwardsInputToItsEnd) {
  FakeApi api;
  api.process.echo_input = true;
  std::string big(200'000, 'x');
  big += std::string{"\0\xff\n", 3};
  const auto outcome = api.run({"run", "--rm", "--", "cat"}, big);
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.output, big);
  EXPECT_TRUE(api.input_ended);
  EXPECT_TRUE(*api.contexts.at(0).find("stdin_open")->as_bool());
}

TEST(Run, DoesNotWaitForAnInputThatNeverEnds) {
  FakeApi api;
  api.process.stream = FakeApi::output_line("stdout", "done\n", 0) + FakeApi::exit_line(0);
  const auto outcome = api.run_with_open_input({"run", "--rm", "--", "true"});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.output, "done\n");
}

TEST(Run, JsonIsOneDocumentWithTheOutputInside) {
  FakeApi api;
  api.process.stream =
      FakeApi::output_line("stdout", "a\n", 0) + FakeApi::output_line("stderr", "b\xff", 2) +
      Json::object({{"type", "exit"}, {"exit_code", 137}, {"signal", 9}, {"state", "killed"}})
          .dump() +
      "\n";
  const auto outcome = api.run({"run", "--rm", "-o", "json", "--", "x"});
  EXPECT_EQ(outcome.status, 137);
  const auto json = Json::parse(outcome.output);
  ASSERT_TRUE(json.has_value()) << outcome.output;
  EXPECT_EQ(
      json->dump(),
      "{\"sandbox_id\":\"sb-1\",\"status\":137,\"exit_code\":null,\"signal\":\"SIGKILL\","
      "\"timed_out\":false,\"stdout\":\"a\\n\",\"stderr\":\"b\xef\xbf\xbd\",\"truncated\":false}");
}

TEST(Run, ResumesABrokenStreamWithoutRepeatingOutput) {
  FakeApi api;
  const auto first = FakeApi::output_line("stdout", "0123", 0);
  api.process.stream = first + FakeApi::output_line("stdout", "4567", 4) + FakeApi::exit_line(0);
  api.process.break_after_bytes = first.size() + 5;
  const auto outcome = api.run({"run", "--rm", "--", "x"});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.output, "01234567");
}

TEST(Run, TheFirstInterruptGoesToTheCommand) {
  FakeApi api;
  api.process.wait_for_signal = true;
  api.on_request = [](const std::string& request) {
    if (request.ends_with("/stream")) {
      ::kill(::getpid(), SIGINT);
    }
  };
  const auto outcome = api.run({"run", "--rm", "--", "sleep", "1000"});
  EXPECT_EQ(outcome.status, 130);
  EXPECT_EQ(api.signals, (std::vector<std::string>{"SIGINT"}));
  EXPECT_TRUE(api.was_asked("DELETE /api/v1/sandboxes/sb-1"));
}

TEST(Run, TheSecondInterruptQuitsAndStillDeletes) {
  FakeApi api;
  api.process.echo_input = true;  // never ends by itself, ignores signals
  api.on_request = [](const std::string& request) {
    if (request.ends_with("/stream") || request.ends_with("/signal")) {
      ::kill(::getpid(), SIGINT);
    }
  };
  const auto outcome = api.run({"run", "--rm", "--", "stubborn"});
  EXPECT_EQ(outcome.status, 130);
  EXPECT_TRUE(api.was_asked("DELETE /api/v1/sandboxes/sb-1"));
}

TEST(Run, AnInterruptDuringCreateLeavesNoSandboxBehind) {
  FakeApi api;
  api.hold_create = true;
  api.on_request = [&api](const std::string& request) {
    if (request == "POST /api/v1/sandboxes") {
      ::kill(::getpid(), SIGINT);
      api.create_released.set();
    }
  };
  const auto outcome = api.run({"run", "--", "true"});
  EXPECT_EQ(outcome.status, 130);
  EXPECT_TRUE(api.was_asked("DELETE /api/v1/sandboxes/sb-1"));
  EXPECT_TRUE(api.contexts.empty());
}

TEST(Exec, RunsInTheNamedSandboxAndForgetsTheContext) {
  FakeApi api;
  api.process.stream = FakeApi::output_line("stdout", "hi", 0) + FakeApi::exit_line(0);
  const auto outcome = api.run({"exec", "sb-7", "--", "echo", "hi"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.output, "hi");
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(api.was_asked("DELETE /api/v1/sandboxes/sb-7/contexts/ctx-1"));
  EXPECT_FALSE(api.was_asked("DELETE /api/v1/sandboxes/sb-7"));
}

TEST(Exec, ASecondInterruptSaysWhatGoesOn) {
  FakeApi api;
  api.process.echo_input = true;
  api.on_request = [](const std::string& request) {
    if (request.ends_with("/stream") || request.ends_with("/signal")) {
      ::kill(::getpid(), SIGINT);
    }
  };
  const auto outcome = api.run({"exec", "sb-1", "--", "stubborn"});
  EXPECT_EQ(outcome.status, 130);
  EXPECT_NE(outcome.error.find("goes on as ctx-1 in sb-1"), std::string::npos) << outcome.error;
  EXPECT_FALSE(api.was_asked("DELETE /api/v1/sandboxes/sb-1/contexts/ctx-1"));
}

TEST(Commands, AWrongKeyIsExplained) {
  FakeApi api;
  api.wanted_key = "another";
  const auto outcome = api.run({"ls"});
  EXPECT_EQ(outcome.status, code_exit_status(Code::kUnauthenticated));
  EXPECT_NE(outcome.error.find("hint: the key from $ATOLL_API_KEY was refused"), std::string::npos);
}

TEST(Commands, ADeadServerIsExplained) {
  FakeApi api;
  const auto outcome = api.run({"ls", "--api-url", "http://127.0.0.1:1"});
  EXPECT_EQ(outcome.status, code_exit_status(Code::kUnavailable));
  EXPECT_NE(outcome.error.find("is `atoll serve` running on http://127.0.0.1:1?"),
            std::string::npos);
}

TEST(Commands, ListShowsEveryPage) {
  FakeApi api;
  for (int i = 0; i < 450; ++i) {
    api.sandboxes.push_back(Json::object({{"id", concat("sb-", i)},
                                          {"template_id", "default"},
                                          {"status", i == 1 ? "failed" : "running"},
                                          {"created_at", "2020-01-01T00:00:00Z"},
                                          {"resources", Json::object({{"memory", "1Gi"}})}}));
  }
  auto outcome = api.run({"ls", "-q"});
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 449);
  EXPECT_EQ(outcome.output.find("sb-1\n"), std::string::npos);
  outcome = api.run({"ls", "-a", "-o", "json"});
  EXPECT_EQ(*Json::parse(outcome.output)->find("count")->as_integer(), 450);
  api.sandboxes.resize(1);
  outcome = api.run({"ls"});
  EXPECT_EQ(outcome.output.substr(0, outcome.output.find('\n')),
            "ID    TEMPLATE  STATUS   AGE" + std::string(outcome.output.find("EXPIRES") - 28, ' ') +
                "EXPIRES  MEMORY");
  EXPECT_NE(outcome.output.find("never    1Gi\n"), std::string::npos) << outcome.output;
}

TEST(Commands, RemoveGoesOnAfterAFailure) {
  FakeApi api;
  auto outcome = api.run({"rm", "a", "gone", "b"});
  EXPECT_EQ(outcome.status, code_exit_status(Code::kNotFound));
  EXPECT_EQ(outcome.output, "a\nb\n");
  EXPECT_EQ(outcome.error, "atoll: gone: fake not_found\n");
  outcome = api.run({"rm", "-f", "gone"});
  EXPECT_EQ(outcome.status, 0);
}

TEST(Commands, CreateInspectDoctorVersion) {
  FakeApi api;
  EXPECT_EQ(api.run({"create"}).output, "sb-1\n");
  EXPECT_EQ(Json::parse(api.run({"create", "-o", "json"}).output)->dump(),
            R"({"id":"sb-1","template":"default","status":"running"})");
  EXPECT_EQ(text_of(*Json::parse(api.run({"inspect", "sb-9"}).output), "id"), "sb-9");
  EXPECT_EQ(api.run({"version"}).output, "atoll 1.2.3\n");
  const auto doctor = api.run({"doctor", "-o", "json"});
  EXPECT_EQ(doctor.status, 0);
  EXPECT_EQ(text_of(*Json::parse(doctor.output), "verdict"), "ok");
  EXPECT_EQ(api.run({"help"}).status, 0);
  EXPECT_EQ(api.run({"lss"}).status, code_exit_status(Code::kInvalidArgument));
}

TEST(Copy, AFileThereAndBack) {
  FakeApi api;
  TemporaryDirectory here;
  std::string content(700'000, 'x');
  content += std::string{"\0\xff", 2};
  write_file(here / "a.bin", content);
  api.files["/tmp"] = {.type = "dir", .content = {}};
  EXPECT_EQ(api.run({"cp", here / "a.bin", "sb-1:/tmp"}).error, "");
  EXPECT_EQ(api.files["/tmp/a.bin"].content, content);
  EXPECT_EQ(api.run({"cp", "sb-1:/tmp/a.bin", here / "b.bin"}).error, "");
  EXPECT_EQ(slurp(here / "b.bin"), content);
  EXPECT_EQ(api.run({"cp", "sb-1:/tmp/a.bin", "-"}).output, content);
  EXPECT_EQ(api.run({"cp", "-", "sb-1:/tmp/c"}, "from stdin").error, "");
  EXPECT_EQ(api.files["/tmp/c"].content, "from stdin");
  const auto json = Json::parse(api.run({"cp", "-o", "json", here / "a.bin", "sb-1:/x"}).output);
  EXPECT_EQ(text_of(*json, "destination"), "sb-1:/x");
  EXPECT_EQ(*json->find("bytes")->as_integer(), static_cast<std::int64_t>(content.size()));
}

TEST(Copy, ATreeWithLinksAndExecutables) {
  FakeApi api;
  TemporaryDirectory here;
  fs::create_directories(here / "tree/sub/empty");
  write_file(here / "tree/sub/f", "f");
  write_file(here / "tree/run.sh", "#!");
  fs::permissions(here / "tree/run.sh", fs::perms{0755});
  fs::create_symlink("sub/f", here / "tree/link");
  const auto outcome = api.run({"cp", here / "tree", "sb-1:/dest"});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(api.files["/dest/sub/f"].content, "f");
  EXPECT_EQ(api.files["/dest/sub/empty"].type, "dir");
  const auto command = api.contexts.at(0).find("cmd")->find("command")->dump();
  EXPECT_NE(command.find(R"("link","sub/f","/dest/link","mode","755","/dest/run.sh")"),
            std::string::npos)
      << command;

  api.files["/dest/link"] = {.type = "symlink", .content = {}, .link_target = "sub/f"};
  api.files["/dest/run.sh"].mode = "0755";
  EXPECT_EQ(api.run({"cp", "sb-1:/dest", here / "back"}).error, "");
  EXPECT_EQ(slurp(here / "back/sub/f"), "f");
  EXPECT_TRUE(fs::is_directory(here / "back/sub/empty"));
  EXPECT_EQ(fs::read_symlink(here / "back/link"), "sub/f");
  EXPECT_NE(fs::status(here / "back/run.sh").permissions() & fs::perms::owner_exec,
            fs::perms::none);
  // Again into the existing directory: inside it.
  EXPECT_EQ(api.run({"cp", "sb-1:/dest", here / "back"}).error, "");
  EXPECT_EQ(slurp(here / "back/dest/sub/f"), "f");
}

TEST(Copy, AHostileSandboxCannotWriteElsewhere) {
  FakeApi api;
  TemporaryDirectory here;
  fs::create_directories(here / "outside");
  fs::create_directories(here / "out");
  fs::create_symlink(here / "outside", here / "out/d");
  write_file(here / "outside/victim", "mine");
  fs::create_symlink(here / "outside/victim", here / "out/f");
  api.files["/src"] = {.type = "dir", .content = {}};
  api.files["/src/f"] = {.content = "theirs", .mode = "4777"};
  // A file replaces the link, not what it points to, and loses its set-id bit.
  EXPECT_EQ(api.run({"cp", "sb-1:/src/.", here / "out"}).status, 0);
  EXPECT_EQ(slurp(here / "outside/victim"), "mine");
  EXPECT_EQ(slurp(here / "out/f"), "theirs");
  EXPECT_EQ(fs::status(here / "out/f").permissions() & fs::perms::set_uid, fs::perms::none);
  // A directory does not follow a link.
  api.files["/src/d"] = {.type = "dir", .content = {}};
  api.files["/src/d/victim"] = {.content = "theirs"};
  EXPECT_NE(api.run({"cp", "sb-1:/src/.", here / "out"}).status, 0);
  EXPECT_EQ(slurp(here / "outside/victim"), "mine");
}

TEST(Copy, MistakesAreRefusedAndLeaveNothing) {
  FakeApi api;
  TemporaryDirectory here;
  EXPECT_EQ(api.run({"cp", "a", "b"}).status, code_exit_status(Code::kInvalidArgument));
  EXPECT_EQ(api.run({"cp", "a:/x", "b:/x"}).status, code_exit_status(Code::kInvalidArgument));
  EXPECT_EQ(api.run({"cp", here / "none", "sb-1:/x"}).status, code_exit_status(Code::kNotFound));
  EXPECT_EQ(api.run({"cp", "sb-1:/none", here / "x"}).status, code_exit_status(Code::kNotFound));
  EXPECT_TRUE(fs::is_empty(here.path()));
}

}  // namespace
}  // namespace atl::cli
