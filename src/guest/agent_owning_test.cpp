// Processes made of images get memory of their own before a dump, and notice nothing.
#include <signal.h>

#include <optional>

#include "guest/agent_warm_fixture.h"
#include "guest/limits.h"
#include "guest/process.h"
#include "guest/warm_areas.h"
#include "guest/warm_owning.h"
#include "guest/warm_stopped.h"

namespace atl::guest {
namespace {

class AgentOwning : public AgentWarm {
 protected:
  static OwningTime enough_time() {
    constexpr std::int64_t kEnoughMs = 60'000;
    const std::int64_t by = monotonic_ms() + kEnoughMs;
    return {.stop_by_ms = by, .own_by_ms = by};
  }
  // A process made of an image of the program, which says this then. Answers what it said.
  std::string revive_one(const SpawnRequest& request, std::string_view says) {
    original_.emplace(spawn(request));
    image_ = capture(*original_, request);
    EXPECT_EQ(image_.refused, "");
    copy_.emplace(revive(image_, request, "a"));
    const std::string said = channel_until(*copy_, says);
    pid_ = outside(list().at("a").pid);
    EXPECT_GT(pid_, 0);
    return said;
  }
  std::uint64_t shared_bytes() const {
    std::uint64_t bytes = 0;
    for (const Area& area : read_areas(pid_).value()) {
      bytes += area.name.starts_with(kImageMappingName) ? area.bytes() : 0;
    }
    return bytes;
  }
  char state() const {
    const std::string stat = slurp(concat("/proc/", pid_, "/stat"));
    return stat.at(stat.rfind(") ") + 2);
  }

  std::optional<TestClient> original_;
  std::optional<TestClient> copy_;
  WarmTestImage image_;
  pid_t pid_ = -1;
};

// Shared memory that its user may look at becomes its own, and it goes on as if nothing happened:
// in the middle of a read, with a second thread that counts, and with what it wrote before.
TEST_F(AgentOwning, MemoryBecomesItsOwnWhileItRuns) {
  const auto request = program("p", "", R"(import threading, time
    ticks = [0]
    def tick():
        while True: ticks[0] += 1; time.sleep(0.001)
    def begin_and_end():
        while True:
            thread = threading.Thread(target=int); thread.start(); thread.join()
    threading.Thread(target=tick, daemon=True).start()
    threading.Thread(target=begin_and_end, daemon=True).start()
    big[6 << 20] = 9
    say(f"pid {os.getpid()}")
    os.read(3, 1)
    seen = ticks[0]
    while ticks[0] == seen: time.sleep(0.001)
    maps = open("/proc/self/maps").read()
    say(f"owned {'atoll-image' not in maps} {big[6 << 20]} {sum(big)}"))");
  revive_one(request, "pid ");
  const auto owned = own_memory(pid_, enough_time());
  ASSERT_TRUE(owned) << owned.error().message;
  EXPECT_GT(*owned, 1U << 20);
  EXPECT_EQ(own_memory(pid_, enough_time()).value_or(1), 0U) << "nothing is left to own";
  ASSERT_TRUE(copy_->send(Kind::kChannelInput, "x"));
  const std::string said = channel_until(*copy_, "woken ");
  EXPECT_NE(said.find("owned True 9 16\n"), std::string::npos) << said;
  EXPECT_NE(said.find("woken 42 4 7 8388608\n"), std::string::npos) << said;
}

// No call that is under way is given up: the process goes on with what it has by then.
TEST_F(AgentOwning, TimeThatIsOverHarmsNobody) {
  const auto request = program("p", "", R"(say("awake")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    os.read(3, 1)
    say(f"mask {before == signal.pthread_sigmask(signal.SIG_BLOCK, [])} {sum(big)}"))");
  revive_one(request, "awake");
  const std::uint64_t shared = shared_bytes();
  OwningTime time = enough_time();
  time.own_by_ms = 0;
  const auto owned = own_memory(pid_, time);
  ASSERT_FALSE(owned);
  EXPECT_NE(owned.error().message.find("in time"), std::string::npos) << owned.error().message;
  EXPECT_LT(shared_bytes(), shared);
  EXPECT_GT(shared_bytes(), 0U);
  const std::string status = slurp(concat("/proc/", pid_, "/status"));
  EXPECT_NE(status.find("\nTracerPid:\t0\n"), std::string::npos);
  EXPECT_NE(status.find("\nSigBlk:\t0000000000000000\n"), std::string::npos) << status;
  const auto rest = own_memory(pid_, enough_time());
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_EQ(shared_bytes(), 0U);
  ASSERT_TRUE(copy_->send(Kind::kChannelInput, "x"));
  const std::string said = channel_until(*copy_, "woken ");
  EXPECT_NE(said.find("mask True 7\n"), std::string::npos) << said;
  EXPECT_NE(said.find("woken 42 4 7 8388608\n"), std::string::npos) << said;
}

// A signal that waits until the process goes on ends its read with EINTR, as it does without us:
// Python runs the handler only then. The process stands still before, and does so afterwards.
TEST_F(AgentOwning, AnInterruptedCallIsTheKernelsToDecide) {
  const auto request = program("p", "", R"(signal.signal(signal.SIGUSR1, lambda *_: say("handled"))
    say("awake")
    os.read(3, 1))");
  revive_one(request, "awake");
  while (state() != 'S' || slurp(concat("/proc/", pid_, "/syscall")).find("0 0x3 ") != 0) {
    ::usleep(1000);
  }
  ASSERT_EQ(::kill(pid_, SIGSTOP), 0);
  while (state() != 'T') {
    ::usleep(1000);
  }
  ASSERT_EQ(::kill(pid_, SIGUSR1), 0);
  const auto owned = own_memory(pid_, enough_time());
  ASSERT_TRUE(owned) << owned.error().message;
  EXPECT_GT(*owned, 0U);
  while (state() == 't' || state() == 'R') {  // it goes back into its own stop
    ::usleep(1000);
  }
  EXPECT_EQ(state(), 'T');
  ASSERT_EQ(::kill(pid_, SIGCONT), 0);
  channel_until(*copy_, "handled");
  ASSERT_TRUE(copy_->send(Kind::kChannelInput, "x"));  // and the read goes on
  EXPECT_NE(channel_until(*copy_, "woken ").find("woken 42 4 7 8388608\n"), std::string::npos);
}

// It would be asked about calls that the process did not make.
TEST_F(AgentOwning, ProcessesWithFiltersOfTheirOwnAreLeftAlone) {
  const auto request = program("p", "", R"(import ctypes, struct
    libc = ctypes.CDLL(None, use_errno=True)
    allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(allow)))
    libc.prctl(38, 1, 0, 0, 0)
    say(f"filtered {libc.prctl(22, 2, filters)}")
    os.read(3, 1))");
  EXPECT_NE(revive_one(request, "filtered ").find("filtered 0"), std::string::npos);
  const std::uint64_t shared = shared_bytes();
  const auto owned = own_memory(pid_, enough_time());
  ASSERT_FALSE(owned);
  EXPECT_NE(owned.error().message.find("filters"), std::string::npos) << owned.error().message;
  EXPECT_EQ(shared_bytes(), shared);
  ASSERT_TRUE(copy_->send(Kind::kChannelInput, "x"));
  channel_until(*copy_, "woken ");
}

// Any pid can be claimed with a signal that is queued; that it comes from nowhere cannot.
TEST_F(AgentOwning, NobodyInsideAsksForADump) {
  SpawnRequest request;
  request.process_id = "p";
  request.cwd = "/";
  request.argv = {"/usr/bin/python3", "-c", R"(
import ctypes, struct, sys
info = ctypes.create_string_buffer(struct.pack("iiiiii", 30, 0, -1, 0, 0, 0), 128)
sys.exit(ctypes.CDLL(None).syscall(129, 1, 30, info)))"};
  const auto end = run(request);
  ASSERT_TRUE(end.exit) << "its connection was closed";
  EXPECT_EQ(end.exit->exit_code, 0U);
  EXPECT_EQ(slurp(concat("/proc/", agent_, "/comm")), "atoll-guest.0\n");
}

// What the host does before a dump.
TEST_F(AgentOwning, BeforeADumpMemoryBecomesItsOwn) {
  const auto request = program("p", "", R"(say("awake"); os.read(3, 1)
    maps = open("/proc/self/maps").read()
    say(f"owned {'atoll-image' not in maps}"))");
  TestClient client = spawn(request);
  const WarmTestImage image = capture(client, request);
  ASSERT_EQ(image.refused, "");
  TestClient copy = revive(image, request, "a");
  channel_until(copy, "awake");
  signal_agent(SIGPWR);
  while (copy.receive()) {
  }  // its end comes after that
  while (slurp(concat("/proc/", agent_, "/comm")) != "atoll-guest.1\n") {
    ::usleep(1000);
  }
  TestClient again = connect();
  AttachRequest attach;
  attach.process_id = "a";
  ASSERT_TRUE(again.send(Kind::kAttach, encode(attach)));
  ASSERT_TRUE(again.send(Kind::kChannelInput, "x"));
  EXPECT_NE(channel_until(again, "owned ").find("owned True"), std::string::npos);
}

}  // namespace
}  // namespace atl::guest
