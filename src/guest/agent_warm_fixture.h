// Tests that capture and revive processes: a small program that is compiled nowhere, because Python
// is one.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>

#include "base/strings.h"
#include "guest/agent_fixture.h"
#include "guest/warm_image.h"
#include "guest/warm_machine.h"

namespace atl::guest {

// Copies itself, says which process the copy is, and waits until that is gone.
inline constexpr const char* kWarmProgram = R"(
import os, signal, sys, mmap, socket
say = lambda text: os.write(3, (text + "\n").encode())
answer, big = 41, bytearray(8 << 20)
big[5 << 20] = 7
generator = (n * n for n in range(10)); next(generator); next(generator)
BEFORE
pid = os.fork()
if pid == 0:
    here = os.fstat(3).st_ino
    os.kill(os.getpid(), signal.SIGSTOP)
    if os.fstat(3).st_ino == here: os._exit(1)
    AFTER
    print("printed"); sys.stdout.flush()
    say(f"woken {answer + 1} {next(generator)} {big[5 << 20]} {len(big)}")
    big.extend(bytes(1 << 20))
    os.read(3, 1)
    os._exit(7)
os.waitpid(pid, os.WUNTRACED)
say(f"copied {pid}")
os.waitpid(pid, 0)
say("gone")
os.read(3, 1)
)";

struct WarmTestImage {
  std::string description;
  Fd memory;
  std::string refused;  // the reason
};

class AgentWarm : public AgentTest {
 protected:
  void SetUp() override {
    if (!kWarmForks) {
      GTEST_SKIP() << "this machine cannot clone processes";
    }
    own_proc_ = true;
    AgentTest::SetUp();
  }

  static std::string replace(std::string text, std::string_view what, std::string_view with) {
    const auto at = text.find(what);
    return text.replace(at, what.size(), with);
  }
  SpawnRequest program(const std::string& id, const std::string& before = "",
                       const std::string& after = "") {
    SpawnRequest request;
    request.process_id = id;
    const std::string text =
        replace(replace(kWarmProgram, "BEFORE", before), "AFTER", after.empty() ? "pass" : after);
    request.argv = {"/usr/bin/python3", "-c", text};
    request.cwd = directory_;
    request.channel = true;
    request.keep = true;
    return request;
  }
  static std::string channel_until(TestClient& client, std::string_view text) {
    std::string channel;
    while (channel.find(text) == std::string::npos) {
      const auto frame = client.receive();
      if (!frame || frame->kind == Kind::kExit || frame->kind == Kind::kError) {
        ADD_FAILURE() << "ended before " << text << ": " << channel
                      << (frame && frame->kind == Kind::kError
                              ? decode_error(frame->payload).message
                              : "");
        break;
      }
      if (frame->kind == Kind::kOutput) {
        const auto output = decode_output(frame->payload).value();
        channel += output.bytes;
      }
    }
    return channel;
  }
  WarmTestImage capture(const std::string& id, std::uint32_t pid,
                        std::uint64_t max_bytes = 1ULL << 30, bool own_memory = false) {
    TestClient client = connect();
    EXPECT_TRUE(
        client.send(Kind::kCapture, encode(CaptureRequest{id, pid, 3, max_bytes, own_memory})));
    const auto frame = client.receive();
    if (!frame || frame->kind != Kind::kImage) {
      const auto error = frame ? decode_error(frame->payload) : Error{};
      return {.refused = error.reason.empty() ? error.message : error.reason};
    }
    return {frame->payload, client.take_passed(), ""};
  }
  // Starts the program and takes the image of its copy.
  WarmTestImage capture(TestClient& client, const SpawnRequest& request,
                        std::uint64_t max_bytes = 1ULL << 30, bool own_memory = false) {
    const std::string said = channel_until(client, "copied ");
    const auto line = said.substr(said.find("copied ") + 7);
    const auto pid = static_cast<std::uint32_t>(std::strtoul(line.c_str(), nullptr, 10));
    return capture(request.process_id, pid, max_bytes, own_memory);
  }
  TestClient revive(const WarmTestImage& image, SpawnRequest request, const std::string& id) {
    request.process_id = id;
    TestClient client = connect();
    EXPECT_TRUE(client.send_passing(
        Kind::kRevive, encode(ReviveRequest{request, image.description}), image.memory.get()));
    return client;
  }
  // What a process of the agent's is called out here; -1: there is none.
  pid_t outside(std::uint32_t inside) const {
    std::ifstream children{concat("/proc/", agent_, "/task/", agent_, "/children")};
    for (pid_t pid = 0; children >> pid;) {
      const std::string status = slurp(concat("/proc/", pid, "/status"));
      if (status.find(concat("\nNSpid:\t", pid, "\t", inside, "\n")) != std::string::npos) {
        return pid;
      }
    }
    return -1;
  }
  std::string refusal(const std::string& before) {
    const auto request = program("p", before);
    TestClient client = spawn(request);
    const auto image = capture(client, request);
    channel_until(client, "gone");
    TestClient remover = connect();
    remover.send(Kind::kRemoveProcess, encode_id("p"));
    (void)remover.receive();
    return image.refused;
  }
};

}  // namespace atl::guest
