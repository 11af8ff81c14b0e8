// Processes: how they start, run and end.
#include "guest/agent_fixture.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

class AgentProcess : public AgentTest {};

TEST_F(AgentProcess, PingAnswers) {
  const auto frames = ask(Kind::kPing);
  ASSERT_EQ(frames.size(), 1U);
  const auto pong = decode_pong(frames[0].payload);
  ASSERT_TRUE(pong);
  EXPECT_EQ(pong->protocol_version, kProtocolVersion);
  EXPECT_EQ(pong->process_count, 0U);
}

TEST_F(AgentProcess, OutputIsSplitAndExitCodeComesBack) {
  const auto result = run(shell("echo out; echo err >&2; exit 7"));
  ASSERT_TRUE(result.exit);
  EXPECT_GT(result.pid, 1U);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.error_output, "err\n");
  EXPECT_TRUE(result.exit->exited);
  EXPECT_EQ(result.exit->exit_code, 7U);
  EXPECT_FALSE(result.exit->timed_out);
  EXPECT_TRUE(list().empty());
}

TEST_F(AgentProcess, DeathBySignalIsReported) {
  const auto result = run(shell("kill -SEGV $$"));
  ASSERT_TRUE(result.exit);
  EXPECT_FALSE(result.exit->exited);
  EXPECT_EQ(result.exit->signal, static_cast<std::uint32_t>(SIGSEGV));
}

TEST_F(AgentProcess, EnvironmentIsCompletedNotReplaced) {
  SpawnRequest request = shell("");
  request.argv = {"env"};
  request.env = {"HOME=/elsewhere", "X=a=b"};
  request.user = "nobody";
  const auto result = run(request);
  ASSERT_TRUE(result.exit) << result.error->message;
  for (const char* line : {"HOME=/elsewhere\n", "X=a=b\n", "USER=nobody\n", "LOGNAME=nobody\n",
                           "SHELL=", "PATH=/usr/local/sbin:/usr/local/bin:"}) {
    EXPECT_NE(("\n" + result.output).find(std::string{"\n"} + line), std::string::npos) << line;
  }
  EXPECT_EQ(result.output.find("TERM="), std::string::npos);
}

TEST_F(AgentProcess, UsersAreReal) {
  const std::string script = "id -u; id -g; id -G; umask";
  SpawnRequest request = shell(script);
  EXPECT_EQ(run(request).output, "0\n0\n0\n0022\n");
  request.user = "nobody";
  const auto nobody = run(request).output;
  EXPECT_EQ(nobody.substr(0, 6), "65534\n");
  EXPECT_NE(nobody.substr(6), "0\n0\n0022\n");
  request.user = "4242:4343";
  EXPECT_EQ(run(request).output, "4242\n4343\n4343\n0022\n");
}

TEST_F(AgentProcess, TheChildStartsClean) {
  // Only 0, 1, 2 (and the directory ls itself opens); nothing blocked, nothing ignored; its own
  // session; a better victim than the agent.
  const auto result =
      run(shell("ls /proc/self/fd | wc -l; grep -E 'Sig(Blk|Ign)' /proc/self/status;"
                "cat /proc/self/oom_score_adj"));
  EXPECT_EQ(result.output.substr(0, 2), "4\n");
  EXPECT_NE(result.output.find("SigBlk:\t0000000000000000"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("SigIgn:\t0000000000000000"), std::string::npos) << result.output;
}

TEST_F(AgentProcess, WorkingDirectory) {
  SpawnRequest request = shell("pwd");
  request.cwd = directory_;
  EXPECT_EQ(run(request).output, directory_ + "\n");
  request.cwd = "";
  request.user = "nobody";  // whose home does not exist
  EXPECT_EQ(run(request).output, "/\n");
}

TEST_F(AgentProcess, WhatCannotStartIsAnErrorAndNotAnExit) {
  struct Case {
    const char* reason;
    Code code;
    std::function<void(SpawnRequest&)> spoil;
  };
  put(path("plain"), "not executable");
  put(path("binary"), std::string("\x7f"
                                  "ELF\0\0\0\0garbage",
                                  15));
  ::chmod(path("binary").c_str(), 0755);
  put(path("lost"), "#!/does/not/exist\n");
  ::chmod(path("lost").c_str(), 0755);
  ::mkdir(path("closed").c_str(), 0700);
  const Case cases[] = {
      {"command_not_found", Code::kNotFound,
       [](SpawnRequest& r) { r.argv = {"no-such-program-here"}; }},
      {"command_not_found", Code::kNotFound,
       [](SpawnRequest& r) { r.argv = {"/no/such/program"}; }},
      {"command_not_executable", Code::kPermissionDenied,
       [this](SpawnRequest& r) { r.argv = {path("plain")}; }},
      {"command_not_executable", Code::kFailedPrecondition,
       [](SpawnRequest& r) { r.argv = {"/tmp"}; }},
      {"command_not_executable", Code::kFailedPrecondition,
       [this](SpawnRequest& r) { r.argv = {path("binary")}; }},
      {"interpreter_not_found", Code::kFailedPrecondition,
       [this](SpawnRequest& r) { r.argv = {path("lost")}; }},
      {"cwd_not_found", Code::kNotFound, [](SpawnRequest& r) { r.cwd = "/no/such"; }},
      {"path_not_directory", Code::kFailedPrecondition,
       [this](SpawnRequest& r) { r.cwd = path("plain"); }},
      {"permission_denied", Code::kPermissionDenied,
       [this](SpawnRequest& r) {
         r.cwd = path("closed");
         r.user = "nobody";
       }},
      {"user_not_found", Code::kNotFound, [](SpawnRequest& r) { r.user = "no-such-user"; }},
  };
  for (const Case& test : cases) {
    SpawnRequest request = shell("true");
    test.spoil(request);
    const auto result = run(request);
    ASSERT_TRUE(result.error) << test.reason;
    EXPECT_EQ(result.error->reason, test.reason) << result.error->message;
    EXPECT_EQ(result.error->code, test.code) << result.error->message;
    EXPECT_FALSE(result.exit);
    EXPECT_EQ(result.pid, 0U);
  }
  EXPECT_TRUE(list().empty());
}

TEST_F(AgentProcess, AScriptWithoutInterpreterLineRunsInTheShell) {
  put(path("script"), "echo script $1\n");
  ::chmod(path("script").c_str(), 0755);
  SpawnRequest request = shell("");
  request.argv = {"script", "arg"};
  request.env = {"PATH=/nowhere:" + directory_};
  EXPECT_EQ(run(request).output, "script arg\n");
}

TEST_F(AgentProcess, TimeoutKillsTheWholeGroup) {
  const std::string survivor = path("survivor");
  SpawnRequest request = shell("(sleep 3; touch " + survivor + ") & echo up; sleep 1000");
  request.timeout_ms = 300;
  const auto result = run(request);
  ASSERT_TRUE(result.exit);
  EXPECT_TRUE(result.exit->timed_out);
  EXPECT_EQ(result.exit->signal, static_cast<std::uint32_t>(SIGKILL));
  EXPECT_EQ(result.output, "up\n");
  // A second process outlives the moment at which the killed one would have acted.
  EXPECT_TRUE(run(shell("sleep 3.5", "later")).exit);
  EXPECT_NE(::access(survivor.c_str(), F_OK), 0);
}

TEST_F(AgentProcess, ATimeoutThatIsNotReachedChangesNothing) {
  SpawnRequest request = shell("exit 3");
  request.timeout_ms = 60000;
  const auto result = run(request);
  ASSERT_TRUE(result.exit);
  EXPECT_FALSE(result.exit->timed_out);
  EXPECT_EQ(result.exit->exit_code, 3U);
}

TEST_F(AgentProcess, DisconnectKillsTheGroupOfAProcessThatIsNotKept) {
  const std::string survivor = path("survivor");
  TestClient client = spawn(shell("(sleep 2; touch " + survivor + ") & echo up; wait"));
  ASSERT_EQ(client.receive()->kind, Kind::kStarted);
  ASSERT_EQ(client.receive()->kind, Kind::kOutput);
  client.close();
  EXPECT_TRUE(run(shell("sleep 2.5", "later")).exit);
  EXPECT_NE(::access(survivor.c_str(), F_OK), 0);
  EXPECT_TRUE(list().empty());
}

TEST_F(AgentProcess, ABackgroundChildDelaysNeitherExitNorDies) {
  const std::string done = path("done");
  // The child holds the pipe, writes to it after the exit, and must not get SIGPIPE.
  const auto result =
      run(shell("(sleep 1; echo late; echo late; touch " + done + ") & echo early; exit 4"));
  ASSERT_TRUE(result.exit);
  EXPECT_EQ(result.exit->exit_code, 4U);
  EXPECT_EQ(result.output, "early\n");
  EXPECT_NE(::access(done.c_str(), F_OK), 0);
  EXPECT_TRUE(wait_for(done));
}

TEST_F(AgentProcess, ChattyBackgroundChildCannotHoldTheExit) {
  const auto result = run(shell("yes & echo $! >&2; exit 5"));
  ASSERT_TRUE(result.exit);
  EXPECT_EQ(result.exit->exit_code, 5U);
  EXPECT_TRUE(run(shell("kill " + result.error_output, "killer")).exit->exited);
}

TEST_F(AgentProcess, SignalsReachTheGroup) {
  SpawnRequest request =
      shell("trap 'echo got; exit 9' USR1; echo ready; while :; do sleep 0.05; done");
  TestClient client = spawn(request);
  ASSERT_EQ(client.receive()->kind, Kind::kStarted);
  ASSERT_EQ(client.receive()->kind, Kind::kOutput);
  EXPECT_EQ(outcome(ask(Kind::kSignalProcess, encode(SignalProcessRequest{"p", SIGUSR1}))), "done");
  const auto result = follow(client);
  EXPECT_NE(result.output.find("got"), std::string::npos);
  ASSERT_TRUE(result.exit);
}

TEST_F(AgentProcess, SignalFrameOnTheStream) {
  TestClient client = spawn(shell("echo ready; sleep 1000"));
  ASSERT_EQ(client.receive()->kind, Kind::kStarted);
  ASSERT_EQ(client.receive()->kind, Kind::kOutput);
  client.send(Kind::kSignal, encode_number(SIGTERM));
  const auto result = follow(client);
  ASSERT_TRUE(result.exit);
  EXPECT_EQ(result.exit->signal, static_cast<std::uint32_t>(SIGTERM));
}

TEST_F(AgentProcess, RequestsAboutUnknownOrEndedProcesses) {
  EXPECT_EQ(outcome(ask(Kind::kSignalProcess, encode(SignalProcessRequest{"x", 15}))),
            "process_not_found");
  EXPECT_EQ(outcome(ask(Kind::kRemoveProcess, encode_id("x"))), "process_not_found");
  EXPECT_EQ(attach("x").error->reason, "process_not_found");
  SpawnRequest request = shell("true", "kept");
  request.keep = true;
  run(request);
  EXPECT_EQ(outcome(ask(Kind::kSignalProcess, encode(SignalProcessRequest{"kept", 15}))),
            "process_ended");
  EXPECT_EQ(run(request).error->reason, "process_exists");
}

TEST_F(AgentProcess, RemoveTerminatesPolitely) {
  SpawnRequest request = shell("trap 'touch " + path("polite") +
                               "; exit 0' TERM; echo up; while :; do sleep 0.05; done");
  request.keep = true;
  TestClient client = spawn(request);
  ASSERT_EQ(client.receive()->kind, Kind::kStarted);
  ASSERT_EQ(client.receive()->kind, Kind::kOutput);
  EXPECT_EQ(outcome(ask(Kind::kRemoveProcess, encode_id("p"))), "done");
  EXPECT_EQ(::access(path("polite").c_str(), F_OK), 0);
  EXPECT_TRUE(list().empty());
  EXPECT_TRUE(follow(client).exit);  // a connected reader still sees the end
}

TEST_F(AgentProcess, RemoveInsistsAfterTheGrace) {
  SpawnRequest request = shell("trap '' TERM; echo up; while :; do sleep 1; done");
  request.keep = true;
  TestClient client = spawn(request);
  ASSERT_EQ(client.receive()->kind, Kind::kStarted);
  ASSERT_EQ(client.receive()->kind, Kind::kOutput);
  client.close();
  TestClient remover = connect();
  remover.send(Kind::kRemoveProcess, encode_id("p"));
  EXPECT_TRUE(remover.silent(1000));  // still in its grace
  const auto answer = remover.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->kind, Kind::kDone);
  EXPECT_TRUE(list().empty());
}

TEST_F(AgentProcess, OrphansAreReaped) {
  run(shell("for i in 1 2 3 4 5; do (setsid sh -c 'sleep 0.2' &) ; done"));
  run(shell("sleep 0.6", "later"));
  // In this pid namespace's own view there must be no zombie left: count by state.
  const auto result = run(shell("ps -e -o stat=,ppid= | awk -v a=" + std::to_string(agent_) +
                                    " '$1 ~ /Z/ && $2 == a' | wc -l",
                                "count"));
  EXPECT_EQ(result.output, "0\n");
}

TEST_F(AgentProcess, TheTableIsBoundedAndFinishedProcessesMakeRoom) {
  for (std::size_t i = 0; i < kMaxProcesses; ++i) {
    SpawnRequest request = shell("", "p" + std::to_string(i));
    request.argv = {"/bin/true"};
    request.keep = true;
    ASSERT_TRUE(run(request).exit) << i;
  }
  // The oldest finished process makes room, nothing else goes.
  SpawnRequest one_more = shell("true", "one-more");
  one_more.keep = true;
  EXPECT_TRUE(run(one_more).exit);
  EXPECT_EQ(list().size(), kMaxProcesses);
  EXPECT_EQ(outcome(ask(Kind::kGetProcess, encode_id("p0"))), "process_not_found");
  EXPECT_NE(outcome(ask(Kind::kGetProcess, encode_id("p1"))), "process_not_found");
}

}  // namespace
}  // namespace atl::guest
