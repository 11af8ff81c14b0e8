// Hostile input: whatever arrives, only its own connection suffers.
#include <random>

#include "guest/agent_fixture.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

class AgentHostile : public AgentTest {};

TEST_F(AgentHostile, MalformedRequestsGetAnErrorAndClose) {
  EXPECT_EQ(outcome(ask(Kind::kSpawn, "garbage")), "malformed");
  EXPECT_EQ(outcome(ask(Kind::kAttach, "")), "malformed");
  EXPECT_EQ(outcome(ask(Kind::kRemoveProcess, "\xff\xff\xff\xff")), "malformed");
  EXPECT_EQ(outcome(ask(Kind::kStat, "x")), "malformed");
  EXPECT_EQ(outcome(ask(Kind::kStdin, "x")), "malformed");
  EXPECT_EQ(outcome(ask(static_cast<Kind>(200), "x")), "malformed");
  EXPECT_EQ(outcome(ask(Kind::kStat, encode(PathRequest{"relative", ""}))), "path_not_absolute");
  TestClient big = connect();
  big.send_bytes(std::string("\xff\xff\xff\xff\x01", 5));
  const auto answer = big.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->kind, Kind::kError);
  EXPECT_FALSE(big.receive());
}

TEST_F(AgentHostile, PartialFramesWait) {
  TestClient client = connect();
  const std::string frame = encode_frame(Kind::kSpawn, encode(shell("echo slow")));
  for (std::size_t at = 0; at < frame.size(); at += 7) {
    client.send_bytes(std::string_view{frame}.substr(at, 7));
    ::usleep(1000);
  }
  EXPECT_EQ(follow(client).output, "slow\n");
}

TEST_F(AgentHostile, AMalformedFrameInAStreamEndsOnlyThatConnection) {
  SpawnRequest request = shell("sleep 1000", "kept");
  request.keep = true;
  TestClient client = spawn(request);
  ASSERT_EQ(client.receive()->kind, Kind::kStarted);
  client.send(Kind::kResize, "short");
  const auto result = follow(client);
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->reason, "malformed");
  EXPECT_TRUE(list()["kept"].running);
}

TEST_F(AgentHostile, RandomBytesNeverHurt) {
  std::mt19937 random{99};
  const std::string valid[] = {encode(shell("true", "fuzz")),
                               encode(AttachRequest{"fuzz", 0}),
                               encode(PathRequest{directory_, ""}),
                               encode(ReadFileRequest{path("x"), "", 0, 10}),
                               encode(WriteFileRequest{path("y"), "", 0644, true}),
                               encode_id("fuzz"),
                               encode(SignalProcessRequest{"fuzz", 15})};
  const Kind kinds[] = {Kind::kPing,          Kind::kSpawn,         Kind::kAttach,
                        Kind::kListProcesses, Kind::kSignalProcess, Kind::kRemoveProcess,
                        Kind::kStat,          Kind::kListDirectory, Kind::kReadFile,
                        Kind::kStdin,         Kind::kData,          Kind::kError};
  for (int round = 0; round < 600; ++round) {
    TestClient client = connect();
    std::string bytes;
    const int frames = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < frames; ++i) {
      std::string payload = valid[random() % std::size(valid)];
      for (unsigned changes = random() % 4; changes > 0; --changes) {
        // The text of a path stays as it is: a mutated write must not hit a real file.
        payload[random() % 4] = static_cast<char>(random());
      }
      bytes += encode_frame(kinds[random() % std::size(kinds)], payload);
    }
    if (random() % 3 == 0) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    bytes.resize(random() % (bytes.size() + 1));
    client.send_bytes(bytes);
    if (random() % 2 == 0) {
      client.stop_sending();
      while (client.receive()) {
      }
    }
  }
  EXPECT_EQ(run(shell("echo fine", "after")).output, "fine\n");
}

TEST_F(AgentHostile, SignalsFromInsideDoNotEndTheAgent) {
  const auto result =
      run(shell("for s in HUP INT QUIT TERM USR1 USR2 PIPE ALRM SEGV ABRT BUS FPE "
                "ILL TRAP SYS XCPU VTALRM PROF KILL STOP; do kill -$s 1; done; "
                "echo sent"));
  EXPECT_NE(result.output.find("sent"), std::string::npos);
  EXPECT_TRUE(agent_alive());
  EXPECT_EQ(ask(Kind::kPing).size(), 1U);
}

TEST_F(AgentHostile, SignalsFromOutsideAreIgnoredToo) {
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGPIPE, SIGUSR1, SIGALRM}) {
    signal_agent(number);
  }
  EXPECT_EQ(run(shell("echo fine")).output, "fine\n");
}

TEST_F(AgentHostile, SilentClientsMakeRoomForRealOnes) {
  std::vector<TestClient> silent;
  for (std::size_t i = 0; i < kMaxConnections + 50; ++i) {
    silent.push_back(connect());
  }
  EXPECT_EQ(run(shell("echo fine")).output, "fine\n");
}

TEST_F(AgentHostile, BusyConnectionsAreNotDroppedForNewOnes) {
  SpawnRequest request = shell("sleep 1000");
  request.keep = true;
  TestClient first = spawn(request);
  ASSERT_EQ(first.receive()->kind, Kind::kStarted);
  std::vector<TestClient> readers;
  for (std::size_t i = 1; i < kMaxConnections; ++i) {
    readers.push_back(connect());
    readers.back().send(Kind::kAttach, encode(AttachRequest{"p", 0}));
    ASSERT_EQ(readers.back().receive()->kind, Kind::kStarted);
  }
  TestClient refused = connect();
  const auto answer = refused.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(decode_error(answer->payload).reason, "resource_exhausted");
  readers.pop_back();
  EXPECT_EQ(ask(Kind::kPing).size(), 1U);
  first.send(Kind::kSignal, encode_number(SIGKILL));
  EXPECT_TRUE(follow(first).exit);
}

TEST_F(AgentHostile, AManyProcessListIsBackPressured) {
  // Each entry is near the largest allowed; the reader takes them one by one.
  for (int i = 0; i < 40; ++i) {
    SpawnRequest request = shell("true", "p" + std::to_string(i));
    request.argv.push_back(std::string(100000, 'a'));
    request.keep = true;
    ASSERT_TRUE(run(request).exit);
  }
  EXPECT_EQ(list().size(), 40U);
}

}  // namespace
}  // namespace atl::guest
