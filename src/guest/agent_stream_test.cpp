// Streams: output, input, back-pressure, journal, terminals.
#include "guest/agent_fixture.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

class AgentStream : public AgentTest {};

TEST_F(AgentStream, EveryByteValuePasses) {
  const std::string bytes = pattern_bytes(300000);
  put(path("bytes"), bytes);
  const auto result = run(shell("cat " + path("bytes")));
  EXPECT_EQ(result.output, bytes);
  EXPECT_TRUE(result.in_order);
  EXPECT_EQ(result.first_offset, 0U);
}

TEST_F(AgentStream, ASlowReaderLosesNothing) {
  const std::string bytes = pattern_bytes(64U << 20);
  put(path("bytes"), bytes);
  SpawnRequest request = shell("cat " + path("bytes"));
  request.journal_bytes = 1024;
  TestClient client = spawn(request);
  ASSERT_EQ(client.receive()->kind, Kind::kStarted);
  std::string got;
  int frames = 0;
  for (;;) {
    auto frame = client.receive();
    ASSERT_TRUE(frame);
    if (frame->kind == Kind::kExit) {
      break;
    }
    const auto output = decode_output(frame->payload);
    ASSERT_TRUE(output);
    ASSERT_EQ(output->header.offset, got.size());
    got += output->bytes;
    if (++frames % 50 == 0) {
      ::usleep(2000);
    }
  }
  EXPECT_TRUE(got == bytes);
}

TEST_F(AgentStream, ABlockedReaderStopsTheProcess) {
  TestClient client =
      spawn(shell("i=0; while [ $i -lt 200 ]; do "
                  "head -c 100000 /dev/zero; i=$((i+1)); done; touch " +
                  path("finished")));
  ASSERT_EQ(client.receive()->kind, Kind::kStarted);
  // 20 MB fit nowhere: not into pipe, window, buffers and socket together.
  run(shell("sleep 1", "pause"));
  EXPECT_NE(::access(path("finished").c_str(), F_OK), 0);
  const auto result = follow(client);
  EXPECT_EQ(result.output.size(), 20000000U);
  EXPECT_TRUE(result.exit);
}

TEST_F(AgentStream, SeveralReadersSeeTheSame) {
  SpawnRequest request = shell("read x; seq 1 50000");
  request.stdin_open = true;
  TestClient owner = spawn(request);
  ASSERT_EQ(owner.receive()->kind, Kind::kStarted);
  TestClient second = connect();
  second.send(Kind::kAttach, encode(AttachRequest{"p", 0}));
  ASSERT_EQ(second.receive()->kind, Kind::kStarted);
  second.send(Kind::kStdin, "go\n");
  const auto a = follow(owner);
  const auto b = follow(second);
  EXPECT_EQ(a.output.size(), 288894U);
  EXPECT_EQ(a.output, b.output);
  EXPECT_TRUE(a.exit && b.exit);
}

TEST_F(AgentStream, ADetachedProcessRunsOnAndReplaysFromTheStart) {
  SpawnRequest request = shell("echo one; echo two >&2; read x; echo $x; exit 6");
  request.keep = true;
  request.stdin_open = true;
  TestClient client = spawn(request);
  ASSERT_EQ(client.receive()->kind, Kind::kStarted);
  client.close();
  EXPECT_TRUE(list()["p"].running);
  TestClient again = connect();
  again.send(Kind::kAttach, encode(AttachRequest{"p", 0}));
  again.send(Kind::kStdin, "three\n");
  const auto live = follow(again);
  EXPECT_EQ(live.output, "one\nthree\n");
  EXPECT_EQ(live.error_output, "two\n");
  ASSERT_TRUE(live.exit);
  EXPECT_EQ(live.exit->exit_code, 6U);

  const auto replay = attach("p");
  EXPECT_EQ(replay.output, live.output);
  EXPECT_EQ(replay.error_output, live.error_output);
  EXPECT_EQ(replay.pid, live.pid);
  ASSERT_TRUE(replay.exit);
  EXPECT_EQ(replay.exit->exit_code, 6U);
  // Two pipes have no common order, so only the amount is known.
  const auto tail = attach("p", 8);
  EXPECT_EQ(tail.output.size() + tail.error_output.size(), 6U);
  EXPECT_EQ(tail.first_offset, 8U);
  EXPECT_EQ(attach("p", 1ULL << 60).output, "");

  const auto info = list()["p"];
  EXPECT_FALSE(info.running);
  EXPECT_TRUE(info.exit.exited);
  EXPECT_EQ(info.exit.exit_code, 6U);
  EXPECT_EQ(info.output_bytes, 14U);
  EXPECT_EQ(info.user, "root");
  EXPECT_EQ(info.argv, request.argv);
  EXPECT_EQ(outcome(ask(Kind::kRemoveProcess, encode_id("p"))), "done");
  EXPECT_EQ(attach("p").error->reason, "process_not_found");
}

TEST_F(AgentStream, TheJournalKeepsTheNewestAndDoesNotStallTheProcess) {
  SpawnRequest request = shell("seq 1 200000; touch " + path("finished"));
  request.keep = true;
  request.journal_bytes = 100000;
  TestClient client = spawn(request);
  ASSERT_EQ(client.receive()->kind, Kind::kStarted);
  client.close();
  ASSERT_TRUE(wait_for(path("finished")));  // with nobody reading
  const auto replay = attach("p");
  EXPECT_EQ(replay.output.size(), 100000U);
  EXPECT_EQ(replay.first_offset, 1288895U - 100000U);
  EXPECT_TRUE(replay.output.ends_with("\n199999\n200000\n"));
  EXPECT_TRUE(replay.in_order);
}

TEST_F(AgentStream, StdinReachesTheProcessAndEnds) {
  SpawnRequest request = shell("cat; echo end");
  request.stdin_open = true;
  TestClient client = spawn(request);
  client.send(Kind::kStdin, std::string("a\0b\n", 4));
  client.send(Kind::kStdin, "c\n");
  client.send(Kind::kStdinEnd);
  const auto result = follow(client);
  EXPECT_EQ(result.output, std::string("a\0b\nc\nend\n", 10));
}

TEST_F(AgentStream, WithoutStdinTheProcessReadsNothing) {
  TestClient client = spawn(shell("cat; echo end"));
  EXPECT_EQ(follow(client).output, "end\n");
}

TEST_F(AgentStream, InputWithoutStdinIsRefused) {
  TestClient client = spawn(shell("sleep 30"));
  client.send(Kind::kStdin, "lost");
  EXPECT_EQ(follow(client).error->reason, "stdin_unavailable");
}

TEST_F(AgentStream, MuchStdinBothWays) {
  SpawnRequest request = shell("cat");
  request.stdin_open = true;
  const std::string bytes = pattern_bytes(8U << 20);
  TestClient client = spawn(request);
  const pid_t writer = ::fork();
  if (writer == 0) {
    for (std::size_t at = 0; at < bytes.size(); at += 200000) {
      client.send(Kind::kStdin, std::string_view{bytes}.substr(at, 200000));
    }
    client.send(Kind::kStdinEnd);
    ::_exit(0);
  }
  const auto result = follow(client);
  ::waitpid(writer, nullptr, 0);
  EXPECT_TRUE(result.output == bytes);
  EXPECT_TRUE(result.exit);
}

TEST_F(AgentStream, StdinThatIsNotReadHoldsTheClient) {
  SpawnRequest request = shell("echo up; read x < " + path("fifo") + "; wc -c");
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  request.stdin_open = true;
  TestClient client = spawn(request);
  ASSERT_EQ(client.receive()->kind, Kind::kStarted);
  ASSERT_EQ(client.receive()->kind, Kind::kOutput);
  std::string frames;
  for (int i = 0; i < 100; ++i) {
    frames += encode_frame(Kind::kStdin, std::string(100000, 'x'));
  }
  const std::size_t sent = client.send_until_blocked(frames, frames.size(), 500);
  EXPECT_LT(sent, 2000000U);
  EXPECT_EQ(ask(Kind::kPing).size(), 1U);  // nobody else waits
  put(path("fifo"), "go\n");
  ASSERT_TRUE(client.send_bytes(std::string_view{frames}.substr(sent)));
  client.send(Kind::kStdinEnd);
  EXPECT_EQ(follow(client).output, "10000000\n");
}

TEST_F(AgentStream, WritingToClosedStdinIsHarmless) {
  SpawnRequest request = shell("exec 0<&-; echo up; sleep 0.5; echo end");
  request.stdin_open = true;
  TestClient client = spawn(request);
  ASSERT_EQ(client.receive()->kind, Kind::kStarted);
  ASSERT_EQ(client.receive()->kind, Kind::kOutput);
  for (int i = 0; i < 50; ++i) {
    client.send(Kind::kStdin, std::string(100000, 'x'));
  }
  const auto result = follow(client);
  EXPECT_EQ(result.output, "end\n");
  EXPECT_TRUE(result.exit->exited);
}

TEST_F(AgentStream, AKeptProcessGetsTheStdinOfALeavingClient) {
  SpawnRequest request = shell("sleep 0.3; wc -c");
  request.keep = true;
  request.stdin_open = true;
  TestClient client = spawn(request);
  for (int i = 0; i < 3; ++i) {
    client.send(Kind::kStdin, std::string(100000, 'x'));
  }
  client.send(Kind::kStdinEnd);
  client.close();
  EXPECT_EQ(attach("p").output, "300000\n");
}

TEST_F(AgentStream, AClientThatOnlyStopsSendingStillGetsEverything) {
  TestClient client = spawn(shell("sleep 0.3; echo out; exit 2"));
  client.stop_sending();
  const auto result = follow(client);
  EXPECT_EQ(result.output, "out\n");
  ASSERT_TRUE(result.exit);
  EXPECT_EQ(result.exit->exit_code, 2U);
}

TEST_F(AgentStream, ATerminalIsATerminal) {
  SpawnRequest request = shell(
      "tty >/dev/null && echo tty; echo $TERM; stty size; ps -o tpgid= $$ "
      "| grep -qw $$ && echo foreground; stty size; read x; stty size");
  request.pty = PtySize{.rows = 33, .columns = 101};
  request.user = "nobody";
  TestClient client = spawn(request);
  ASSERT_EQ(client.receive()->kind, Kind::kStarted);
  client.send(Kind::kResize, encode(PtySize{.rows = 44, .columns = 55}));
  client.send(Kind::kStdin, "x\n");
  const auto result = follow(client);
  EXPECT_NE(result.terminal.find("tty\r\nxterm-256color\r\n"), std::string::npos)
      << result.terminal;
  EXPECT_TRUE(result.terminal.ends_with("44 55\r\n")) << result.terminal;
  EXPECT_EQ(result.output + result.error_output, "");
  EXPECT_TRUE(result.exit->exited);
}

TEST_F(AgentStream, ControlCharactersAndEndOfInputWorkOnATerminal) {
  SpawnRequest request = shell("cat; echo after");
  request.pty.emplace();
  TestClient client = spawn(request);
  client.send(Kind::kStdin, "line\n");
  client.send(Kind::kStdinEnd);
  const auto result = follow(client);
  EXPECT_NE(result.terminal.find("after\r\n"), std::string::npos) << result.terminal;

  SpawnRequest sleeper = shell("echo up; exec sleep 1000", "s");
  sleeper.pty.emplace();
  TestClient second = spawn(sleeper);
  ASSERT_EQ(second.receive()->kind, Kind::kStarted);
  ASSERT_EQ(second.receive()->kind, Kind::kOutput);
  second.send(Kind::kStdin, "\x03");
  const auto interrupted = follow(second);
  ASSERT_TRUE(interrupted.exit);
  EXPECT_EQ(interrupted.exit->signal, static_cast<std::uint32_t>(SIGINT));
}

TEST_F(AgentStream, NothingOfATerminalsLastWordsIsLost) {
  for (int round = 0; round < 20; ++round) {
    SpawnRequest request = shell("seq 1 20000");
    request.pty.emplace();
    const auto result = run(request);
    EXPECT_EQ(result.terminal.size(), 128894U) << round;
    EXPECT_TRUE(result.terminal.ends_with("20000\r\n"));
  }
}

TEST_F(AgentStream, RemovingAnInteractiveShellNeedsNoForce) {
  SpawnRequest request;
  request.process_id = "p";
  request.argv = {"bash", "-i"};
  request.pty.emplace();
  request.keep = true;
  TestClient client = spawn(request);
  ASSERT_EQ(client.receive()->kind, Kind::kStarted);
  ASSERT_EQ(client.receive()->kind, Kind::kOutput);
  EXPECT_EQ(outcome(ask(Kind::kRemoveProcess, encode_id("p"))), "done");
  const auto result = follow(client);
  ASSERT_TRUE(result.exit);
  EXPECT_NE(result.exit->signal, static_cast<std::uint32_t>(SIGKILL));
}

}  // namespace
}  // namespace atl::guest
