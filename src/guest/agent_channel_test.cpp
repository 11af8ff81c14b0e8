// The channel, idle timeouts and what the agent tells about one process.
#include "guest/agent_fixture.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

class AgentChannel : public AgentTest {
 protected:
  static SpawnRequest with_channel(const std::string& script) {
    SpawnRequest request = shell(script);
    request.channel = true;
    return request;
  }
  Result<ProcessInfo> get(const std::string& id) {
    const auto frames = ask(Kind::kGetProcess, encode_id(id));
    if (frames.size() != 1 || frames[0].kind != Kind::kProcess) {
      return fail(Code::kNotFound, "", outcome(frames));
    }
    return decode_process(frames[0].payload);
  }
  // Output until `text` has arrived on the channel.
  static std::string channel_until(TestClient& client, std::string_view text) {
    std::string channel;
    while (channel.find(text) == std::string::npos) {
      const auto frame = client.receive();
      if (!frame || frame->kind == Kind::kExit || frame->kind == Kind::kError) {
        ADD_FAILURE() << "ended before " << text << ": " << channel;
        break;
      }
      if (frame->kind == Kind::kOutput) {
        const auto output = decode_output(frame->payload).value();
        channel += output.header.stream == Stream::kChannel ? output.bytes : "";
      }
    }
    return channel;
  }
};

TEST_F(AgentChannel, IsDescriptorThreeAndNothingElseIsOpen) {
  const auto result = run(with_channel("echo said >&3; ls /proc/self/fd | wc -l"));
  ASSERT_TRUE(result.exit);
  EXPECT_EQ(result.channel, "said\n");
  EXPECT_EQ(result.output, "5\n");  // 0 to 3, and the directory ls itself opens
  const auto without = run(shell("echo said 2>/dev/null >&3 || echo closed"));
  EXPECT_EQ(without.channel, "");
}

TEST_F(AgentChannel, CarriesAnyBytesBothWays) {
  TestClient client = spawn(with_channel("cat <&3 >&3"));
  const std::string bytes = pattern_bytes(3U << 20);
  std::string echoed;
  std::size_t sent = 0;
  while (echoed.size() < bytes.size()) {
    if (sent < bytes.size()) {
      const std::size_t size = std::min<std::size_t>(32768, bytes.size() - sent);
      ASSERT_TRUE(client.send(Kind::kChannelInput, bytes.substr(sent, size)));
      sent += size;
    }
    while (sent == bytes.size() ? echoed.size() < bytes.size() : !client.silent(0)) {
      const auto frame = client.receive();
      ASSERT_TRUE(frame);
      if (frame->kind == Kind::kOutput) {
        const auto output = decode_output(frame->payload).value();
        ASSERT_EQ(output.header.stream, Stream::kChannel);
        EXPECT_EQ(output.header.offset, echoed.size());
        echoed += output.bytes;
      }
    }
  }
  EXPECT_TRUE(echoed == bytes);
}

TEST_F(AgentChannel, InputIsBackPressured) {
  TestClient client = spawn(with_channel("echo ready >&3; sleep 1000"));
  channel_until(client, "ready");
  const std::string frame = encode_frame(Kind::kChannelInput, std::string(65536, 'x'));
  std::string many;
  for (int i = 0; i < 512; ++i) {
    many += frame;
  }
  EXPECT_LT(client.send_until_blocked(many, many.size(), 300), many.size() / 4);
}

TEST_F(AgentChannel, WhatWasPrintedBeforeComesBefore) {
  // Each round writes to both pipes and then to the channel; nothing may overtake.
  const auto result = run(with_channel(
      "i=0; while [ $i -lt 2000 ]; do echo o$i; echo e$i >&2; echo c$i >&3; i=$((i+1)); done"));
  ASSERT_TRUE(result.exit);
  EXPECT_TRUE(result.in_order);
  for (int i = 0; i < 2000; ++i) {
    const std::string number = std::to_string(i);
    const auto channel = result.all.find("c" + number + "\n");
    ASSERT_NE(channel, std::string::npos);
    EXPECT_LT(result.all.find("o" + number + "\n"), channel) << i;
    EXPECT_LT(result.all.find("e" + number + "\n"), channel) << i;
  }
}

TEST_F(AgentChannel, AFullPipeComesBeforeTheChannelToo) {
  for (int round = 0; round < 5; ++round) {
    const auto result =
        run(with_channel("head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2; echo x >&3"));
    ASSERT_TRUE(result.exit);
    EXPECT_EQ(result.all.find('x'), 120000U);
  }
}

TEST_F(AgentChannel, ItsEndIsNotTheEndOfTheProcess) {
  const auto result = run(with_channel("echo a >&3; exec 3>&-; sleep 0.2; echo still; exit 4"));
  ASSERT_TRUE(result.exit);
  EXPECT_EQ(result.channel, "a\n");
  EXPECT_EQ(result.output, "still\n");
  EXPECT_EQ(result.exit->exit_code, 4U);
}

TEST_F(AgentChannel, ABackgroundChildThatHoldsItDelaysNothing) {
  const auto result = run(with_channel("echo a >&3; (sleep 100; echo b >&3) & exit 0"));
  ASSERT_TRUE(result.exit);
  EXPECT_EQ(result.channel, "a\n");
}

TEST_F(AgentChannel, AnUnreadChannelDoesNotHurtTheProcess) {
  TestClient client = spawn(with_channel("read line <&3; echo $line; exit 0"));
  ASSERT_TRUE(client.send(Kind::kChannelInput, "first\nmore that nobody reads\n"));
  const auto result = follow(client);
  ASSERT_TRUE(result.exit);
  EXPECT_EQ(result.output, "first\n");
}

TEST_F(AgentChannel, WorksBesideATerminal) {
  SpawnRequest request = with_channel("echo tty; echo channel >&3");
  request.pty = PtySize{};
  const auto result = run(request);
  ASSERT_TRUE(result.exit);
  EXPECT_EQ(result.terminal, "tty\r\n");
  EXPECT_EQ(result.channel, "channel\n");
}

TEST_F(AgentChannel, InputWithoutAChannelIsIgnored) {
  TestClient client = spawn(shell("sleep 0.2; echo done"));
  ASSERT_TRUE(client.send(Kind::kChannelInput, "x"));
  EXPECT_EQ(follow(client).output, "done\n");
}

TEST_F(AgentChannel, ReattachReplaysIt) {
  SpawnRequest request = with_channel("echo out; echo one >&3; read x <&3; echo two >&3");
  request.keep = true;
  TestClient client = spawn(request);
  channel_until(client, "one");
  client.close();
  TestClient again = connect();
  again.send(Kind::kAttach, encode(AttachRequest{"p", 0}));
  again.send(Kind::kChannelInput, "go\n");
  const auto result = follow(again);
  ASSERT_TRUE(result.exit);
  EXPECT_EQ(result.all, "out\none\ntwo\n");
  EXPECT_EQ(result.channel, "one\ntwo\n");
}

TEST_F(AgentChannel, OneProcessCanBeAskedFor) {
  EXPECT_EQ(get("p").error().reason, "process_not_found");
  EXPECT_EQ(outcome(ask(Kind::kGetProcess, encode_id("a/b"))), "bad_process_id");
  SpawnRequest request = with_channel("head -c 300000 /dev/zero; echo x >&3; read x <&3; exit 3");
  request.keep = true;
  request.journal_bytes = 1000;
  TestClient client = spawn(request);
  channel_until(client, "x");
  auto info = get("p");
  ASSERT_TRUE(info);
  EXPECT_TRUE(info->running);
  EXPECT_TRUE(info->has_channel);
  EXPECT_EQ(info->output_bytes, 300002U);
  EXPECT_EQ(info->journal_first_offset, 299002U);
  client.send(Kind::kChannelInput, "\n");
  EXPECT_EQ(follow(client).exit->exit_code, 3U);
  info = get("p");
  ASSERT_TRUE(info);
  EXPECT_FALSE(info->running);
  EXPECT_EQ(info->exit.exit_code, 3U);
  EXPECT_EQ(attach("p").first_offset, info->journal_first_offset);
}

TEST_F(AgentChannel, SilenceEndsAProcess) {
  SpawnRequest request = shell("sleep 1000 & sleep 1000");
  request.idle_timeout_ms = 200;
  const auto result = run(request);
  ASSERT_TRUE(result.exit);
  EXPECT_FALSE(result.exit->exited);
  EXPECT_EQ(result.exit->signal, static_cast<std::uint32_t>(SIGKILL));
  EXPECT_TRUE(result.exit->idle_timed_out);
  EXPECT_FALSE(result.exit->timed_out);
}

TEST_F(AgentChannel, OutputAndInputKeepItAlive) {
  SpawnRequest request = shell("for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done");
  request.idle_timeout_ms = 2000;
  auto result = run(request);
  ASSERT_TRUE(result.exit);
  EXPECT_TRUE(result.exit->exited);
  EXPECT_FALSE(result.exit->idle_timed_out);

  request = shell("sleep 1000");
  request.stdin_open = true;
  request.idle_timeout_ms = 1500;
  TestClient client = spawn(request);
  for (int i = 0; i < 6; ++i) {
    client.send(Kind::kStdin, "x");
    const auto started = client.silent(500);
    EXPECT_TRUE(started || i == 0);  // kStarted, and then nothing, so it was not ended
    if (!started) {
      EXPECT_EQ(client.receive()->kind, Kind::kStarted);
    }
  }
  result = follow(client);
  ASSERT_TRUE(result.exit);
  EXPECT_TRUE(result.exit->idle_timed_out);
}

TEST_F(AgentChannel, ASlowReaderIsNotSilence) {
  SpawnRequest request = shell("head -c 4000000 /dev/zero; exit 5");
  request.idle_timeout_ms = 300;
  TestClient client = spawn(request);
  ::usleep(1500000);  // the time in which it must not be ended
  const auto result = follow(client);
  ASSERT_TRUE(result.exit);
  EXPECT_EQ(result.exit->exit_code, 5U);
  EXPECT_EQ(result.output.size(), 4000000U);
}

TEST_F(AgentChannel, TheShorterOfTwoTimeoutsIsNamed) {
  SpawnRequest request = shell("sleep 1000");
  request.timeout_ms = 200;
  request.idle_timeout_ms = 600000;
  const auto result = run(request);
  ASSERT_TRUE(result.exit);
  EXPECT_TRUE(result.exit->timed_out);
  EXPECT_FALSE(result.exit->idle_timed_out);
}

}  // namespace
}  // namespace atl::guest
