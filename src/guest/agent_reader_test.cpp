// Output and its readers before the first one comes; programs that are driven; the foreground job.
#include "guest/agent_fixture.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

class AgentReader : public AgentTest {
 protected:
  static SpawnRequest kept(const std::string& script) {
    SpawnRequest request = shell(script);
    request.keep = true;
    request.journal_bytes = 512 * 1024;
    return request;
  }
  void start_unread(const SpawnRequest& request) {
    TestClient client = spawn(request);
    ASSERT_EQ(client.receive()->kind, Kind::kStarted);
    client.close();
  }
  // Until the process has said nothing new for a moment.
  std::uint64_t output_when_quiet() {
    std::uint64_t before = UINT64_MAX;
    for (;;) {
      const std::uint64_t now = list()["p"].output_bytes;
      if (now == before) {
        return now;
      }
      before = now;
      ::usleep(200000);
    }
  }
};

TEST_F(AgentReader, NothingIsLostBeforeTheFirstReader) {
  start_unread(kept("seq 1 400000; echo end >&2; exit 3"));
  EXPECT_LE(output_when_quiet(), 512U * 1024);  // it waits, and does not run away
  const auto result = attach("p");
  EXPECT_EQ(result.first_offset, 0U);
  EXPECT_EQ(result.output.size(), 2688895U);
  EXPECT_TRUE(result.in_order);
  EXPECT_EQ(result.error_output, "end\n");
  ASSERT_TRUE(result.exit);
  EXPECT_EQ(result.exit->exit_code, 3U);
}

TEST_F(AgentReader, WithoutAnyReaderTheProcessGoesOnAfterAWhile) {
  start_unread(kept("seq 1 400000; touch " + path("finished")));
  ASSERT_TRUE(wait_for(path("finished")));
  const auto result = attach("p");
  EXPECT_EQ(result.first_offset, 2688895U - 512U * 1024);
  EXPECT_TRUE(result.output.ends_with("\n399999\n400000\n"));
}

TEST_F(AgentReader, AReaderThatComesBackLosesNothingEither) {
  SpawnRequest request = kept("seq 1 3000000");
  request.journal_bytes = kDefaultJournalBytes;
  start_unread(request);
  std::string output;
  std::uint64_t offset = 0;
  for (int round = 0; round < 2; ++round) {
    TestClient client = connect();
    client.send(Kind::kAttach, encode(AttachRequest{"p", offset}));
    while (output.size() < (round + 1) * 5000000U) {
      const auto frame = client.receive();
      if (frame->kind == Kind::kOutput) {
        const auto piece = decode_output(frame->payload);
        ASSERT_EQ(piece->header.offset, offset);
        output += piece->bytes;
        offset += piece->bytes.size();
      }
    }
    client.close();
    output_when_quiet();
  }
  const auto rest = attach("p", offset);
  EXPECT_EQ(rest.first_offset, offset);
  EXPECT_EQ(output.size() + rest.output.size(), 22888896U);
}

TEST_F(AgentReader, AClientThatOnlyFeedsTakesNothingFromReaders) {
  SpawnRequest request = kept("cat");
  request.stdin_open = true;
  TestClient client = spawn(request);
  ASSERT_EQ(client.receive()->kind, Kind::kStarted);
  client.send(Kind::kInputOnly);
  client.send(Kind::kStdin, std::string(200000, 'a'));
  client.send(Kind::kStdin, std::string(200000, 'b'));
  client.send(Kind::kStdinEnd);
  client.close();
  EXPECT_EQ(attach("p").output, std::string(200000, 'a') + std::string(200000, 'b'));
}

TEST_F(AgentReader, ADrivenTerminalDoesNotEchoOrCutLines) {
  SpawnRequest request = shell("read x; echo ${#x}; test -t 0 && echo tty; printf 'a\\nb'");
  request.pty.emplace();
  request.pty_driven = true;
  TestClient client = spawn(request);
  client.send(Kind::kStdin, std::string(60000, 'x') + "\n");
  EXPECT_EQ(follow(client).terminal, "60000\ntty\na\nb");
}

TEST_F(AgentReader, AKeyboardSignalIsForTheForegroundJob) {
  SpawnRequest request = shell("");
  request.argv = {"/bin/bash", "--norc", "-i"};
  request.pty.emplace();
  request.pty_driven = true;
  request.env = {"PS1=ready>", "TERM=dumb"};
  TestClient client = spawn(request);
  client.send(Kind::kStdin, "sh -c 'trap \"exit 42\" INT; touch " + path("up") +
                                "; while :; do sleep 0.1; done'; echo code $?; exit 7\n");
  ASSERT_TRUE(wait_for(path("up")));
  client.send(Kind::kSignal, encode_number(SIGINT));
  const auto result = follow(client);
  EXPECT_NE(result.terminal.find("code 42"), std::string::npos) << result.terminal;
  ASSERT_TRUE(result.exit);
  EXPECT_EQ(result.exit->exit_code, 7U);  // the shell itself went on
}

TEST_F(AgentReader, TheLabelIsGivenBack) {
  SpawnRequest request = kept("true");
  request.label = "whatever";
  run(request);
  EXPECT_EQ(list()["p"].label, "whatever");
}

}  // namespace
}  // namespace atl::guest
