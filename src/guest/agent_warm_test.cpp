// Capturing and reviving processes: a small program that is compiled nowhere, because Python is
// one, and everything that must be refused.
#include <fcntl.h>
#include <sys/wait.h>

#include "base/strings.h"
#include "guest/agent_fixture.h"
#include "guest/warm_image.h"
#include "guest/warm_machine.h"
#include "guest/warm_owning.h"

namespace atl::guest {
namespace {

// Copies itself, says which process the copy is, and waits until that is gone.
constexpr const char* kProgram = R"(
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

struct Image {
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
        replace(replace(kProgram, "BEFORE", before), "AFTER", after.empty() ? "pass" : after);
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
  Image capture(const std::string& id, std::uint32_t pid, std::uint64_t max_bytes = 1ULL << 30,
                bool own_memory = false) {
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
  Image capture(TestClient& client, const SpawnRequest& request,
                std::uint64_t max_bytes = 1ULL << 30, bool own_memory = false) {
    const std::string said = channel_until(client, "copied ");
    const auto line = said.substr(said.find("copied ") + 7);
    const auto pid = static_cast<std::uint32_t>(std::strtoul(line.c_str(), nullptr, 10));
    return capture(request.process_id, pid, max_bytes, own_memory);
  }
  TestClient revive(const Image& image, SpawnRequest request, const std::string& id) {
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

TEST_F(AgentWarm, CopiesGoOnWhereTheOriginalWas) {
  const auto request = program("p");
  TestClient client = spawn(request);
  const Image image = capture(client, request);
  ASSERT_EQ(image.refused, "");
  channel_until(client, "gone");  // the original goes on, without its copy
  EXPECT_EQ(::fcntl(image.memory.get(), F_GET_SEALS),
            F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
  std::vector<TestClient> copies;
  for (const std::string id : {"a", "b", "c"}) {
    copies.push_back(revive(image, request, id));
  }
  for (TestClient& copy : copies) {
    const std::string said = channel_until(copy, "woken ");
    EXPECT_NE(said.find("woken 42 4 7 8388608\n"), std::string::npos) << said;
    EXPECT_NE(said.find("printed\n"), std::string::npos);
    ASSERT_TRUE(copy.send(Kind::kChannelInput, "x"));
    const auto end = follow(copy);
    ASSERT_TRUE(end.exit);
    EXPECT_EQ(end.exit->exit_code, 7U) << end.exit->signal;
  }
  const auto table = list();
  EXPECT_TRUE(table.at("p").running);
  EXPECT_EQ(table.at("a").argv, request.argv);
}

TEST_F(AgentWarm, CopiesMayHaveMemoryOfTheirOwn) {
  const auto request = program("p");
  TestClient client = spawn(request);
  const Image image = capture(client, request, 1ULL << 30, true);
  ASSERT_EQ(image.refused, "");
  const auto described = decode_warm_image(image.description);
  ASSERT_TRUE(described);
  for (const Mapping& mapping : described->mappings) {
    EXPECT_NE(mapping.kind, MappingKind::kImage);
  }
  TestClient copy = revive(image, request, "a");
  EXPECT_NE(channel_until(copy, "woken ").find("woken 42 4 7 8388608\n"), std::string::npos);
}

// Shared memory that its user may look at becomes its own, and it goes on as if nothing happened:
// in the middle of a read, with a second thread that counts, and with what it wrote before.
TEST_F(AgentWarm, MemoryBecomesItsOwnWhileItRuns) {
  const auto request = program("p", "", R"(import threading, time
    ticks = [0]
    def tick():
        while True: ticks[0] += 1; time.sleep(0.001)
    threading.Thread(target=tick, daemon=True).start()
    big[6 << 20] = 9
    say(f"pid {os.getpid()}")
    os.read(3, 1)
    seen = ticks[0]
    while ticks[0] == seen: time.sleep(0.001)
    maps = open("/proc/self/maps").read()
    say(f"owned {'atoll-image' not in maps} {big[6 << 20]} {sum(big)}"))");
  TestClient client = spawn(request);
  const Image image = capture(client, request);
  ASSERT_EQ(image.refused, "");
  TestClient copy = revive(image, request, "a");
  channel_until(copy, "pid ");
  const pid_t pid = outside(list().at("a").pid);
  ASSERT_GT(pid, 0);
  const auto owned = own_memory(pid);
  ASSERT_TRUE(owned) << owned.error().message;
  EXPECT_GT(*owned, 1U << 20);
  EXPECT_EQ(own_memory(pid).value_or(1), 0U) << "nothing is left to own";
  ASSERT_TRUE(copy.send(Kind::kChannelInput, "x"));
  EXPECT_NE(channel_until(copy, "owned ").find("owned True 9 16\n"), std::string::npos);
  EXPECT_NE(channel_until(copy, "woken ").find("woken 42 4 7 8388608\n"), std::string::npos);
}

// What the host does before a dump.
TEST_F(AgentWarm, BeforeADumpMemoryBecomesItsOwn) {
  const auto request = program("p", "", R"(say("awake"); os.read(3, 1)
    maps = open("/proc/self/maps").read()
    say(f"owned {'atoll-image' not in maps}"))");
  TestClient client = spawn(request);
  const Image image = capture(client, request);
  ASSERT_EQ(image.refused, "");
  TestClient copy = revive(image, request, "a");
  channel_until(copy, "awake");
  signal_agent(SIGPWR);
  while (copy.receive()) {
  }  // its end comes after that
  TestClient again = connect();
  AttachRequest attach;
  attach.process_id = "a";
  ASSERT_TRUE(again.send(Kind::kAttach, encode(attach)));
  ASSERT_TRUE(again.send(Kind::kChannelInput, "x"));
  EXPECT_NE(channel_until(again, "owned ").find("owned True"), std::string::npos);
}

TEST_F(AgentWarm, FilesLimitsAndSignalsComeAlong) {
  put(path("text"), "one two three");
  const std::string before =
      "import resource\n"
      "file = open('text'); file.read(4); twin = os.dup(file.fileno())\n"
      "out = open('out', 'a'); out.write('buffered ')\n"
      "os.set_inheritable(twin, True); os.umask(0o27); os.chdir('/usr')\n"
      "signal.signal(signal.SIGUSR1, lambda *_: say('handled'))\n"
      "resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); event = os.eventfd(5)\n";
  const std::string after =
      "os.kill(os.getpid(), signal.SIGUSR1)\n"
      "    out.write('more'); out.close()\n"
      "    os.lseek(twin, 1, os.SEEK_CUR)\n"
      "    old = os.umask(0)\n"
      "    say(f'{os.getcwd()} {old:o} {file.tell()} {os.get_inheritable(twin)}')\n"
      "    say(f'{resource.getrlimit(resource.RLIMIT_CORE)} {os.eventfd_read(event)}')\n"
      "    say(os.readlink('/proc/self/exe') + ' ' + open('/proc/self/comm').read().strip())\n"
      "    say('maps ' + str('atoll-plan' in open('/proc/self/maps').read()))";
  const auto request = program("p", before, after);
  TestClient client = spawn(request);
  const Image image = capture(client, request);
  ASSERT_EQ(image.refused, "");
  TestClient copy = revive(image, request, "a");
  const std::string said = channel_until(copy, "woken ");
  EXPECT_NE(said.find("handled\n"), std::string::npos) << said;
  EXPECT_NE(said.find("/usr 27 "), std::string::npos) << said;
  EXPECT_NE(said.find("True\n(0, 0) 5\n"), std::string::npos) << said;
  EXPECT_NE(said.find("/usr/bin/python3"), std::string::npos) << said;
  EXPECT_NE(said.find("maps False\n"), std::string::npos) << said;
  EXPECT_EQ(slurp(path("out")), "buffered more");
}

TEST_F(AgentWarm, CopiesOfCopies) {
  auto request = program("p");
  TestClient first = spawn(request);
  const Image image = capture(first, request);
  ASSERT_EQ(image.refused, "");
  // The copy copies itself again when it wakes up: the same program, one turn later.
  const std::string again =
      "answer += 100; del big[6 << 20:]; pid = os.fork()\n"
      "    if pid == 0:\n"
      "        here = os.fstat(3).st_ino; os.kill(os.getpid(), signal.SIGSTOP)\n"
      "        if os.fstat(3).st_ino == here: os._exit(1)\n"
      "    else:\n"
      "        os.waitpid(pid, os.WUNTRACED); say(f'copied {pid}'); os.waitpid(pid, 0)\n"
      "        say('gone'); os._exit(0)";
  request = program("q", "", again);
  TestClient second = spawn(request);
  const Image outer = capture(second, request);
  ASSERT_EQ(outer.refused, "");
  TestClient revived = revive(outer, request, "r");
  SpawnRequest revived_request = request;
  revived_request.process_id = "r";
  const Image inner = capture(revived, revived_request);
  ASSERT_EQ(inner.refused, "");
  TestClient last = revive(inner, request, "s");
  const std::string said = channel_until(last, "woken ");
  EXPECT_NE(said.find("woken 142 4 7 6291456\n"), std::string::npos) << said;
}

TEST_F(AgentWarm, WhatCannotBeTakenAlongIsRefused) {
  EXPECT_EQ(refusal("s = socket.socketpair()"), "open_socket");
  EXPECT_EQ(refusal("p = os.pipe()"), "open_pipe");
  EXPECT_EQ(refusal("m = mmap.mmap(-1, 4096)"), "shared_memory");
  EXPECT_EQ(refusal("f = open('gone', 'w'); os.unlink('gone')"), "deleted_file");
  EXPECT_EQ(refusal("f = os.memfd_create('x')"), "deleted_file");
  EXPECT_EQ(refusal("import select; e = select.epoll()"), "open_descriptor");
  EXPECT_EQ(refusal("os.chroot('/'); os.setgroups([1])"), "identity_changed");
}

TEST_F(AgentWarm, OnlyStoppedProcessesOfTheUserAreCaptured) {
  const auto request = program("p");
  TestClient client = spawn(request);
  const std::string said = channel_until(client, "copied ");
  const auto original = list().at("p").pid;
  EXPECT_EQ(capture("p", original).refused, "not_stopped");
  TestClient again = connect();
  EXPECT_EQ(capture("nobody", 5).refused, "process_not_found");
  auto other = program("u");
  other.user = "65534";
  other.cwd = "/";
  TestClient theirs = spawn(other);
  channel_until(theirs, "copied ");
  // A pid of root, named by an interpreter of somebody else.
  const auto pid = static_cast<std::uint32_t>(std::strtoul(said.c_str() + 7, nullptr, 10));
  EXPECT_NE(capture("u", pid).refused, "");
}

TEST_F(AgentWarm, OfAnotherUser) {
  auto request = program("p");
  request.user = "65534";
  request.cwd = "/";
  TestClient client = spawn(request);
  const Image image = capture(client, request);
  ASSERT_EQ(image.refused, "");
  TestClient copy = revive(image, request, "a");
  EXPECT_NE(channel_until(copy, "woken ").find("woken 42"), std::string::npos);
  EXPECT_EQ(list().at("a").user, list().at("p").user);
}

TEST_F(AgentWarm, MemoryHasALimit) {
  const auto request = program("p", "heap = os.urandom(4 << 20)");
  TestClient client = spawn(request);
  EXPECT_EQ(capture(client, request, 1 << 20).refused, "image_too_large");
  channel_until(client, "gone");
}

TEST_F(AgentWarm, AWrongImageEndsItsProcessAlone) {
  const auto request = program("p");
  TestClient client = spawn(request);
  Image image = capture(client, request);
  ASSERT_EQ(image.refused, "");
  auto parsed = decode_warm_image(image.description);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(encode(*parsed), image.description);
  for (int which = 0; which < 5; ++which) {
    WarmImage wrong = *parsed;
    if (which == 0) {
      wrong.registers.assign(wrong.registers.size(), '\x5a');
    } else if (which == 1) {
      wrong.files.front().path = "/nowhere/at/all";
    } else if (which == 2) {
      wrong.program = "/nowhere/program";
    } else if (which == 3) {
      ++wrong.files.front().modified_ns;  // replaced since
    } else {
      wrong.mappings.front().protection = 0;
    }
    const Image bad{encode(wrong), *image.memory.duplicate(), ""};
    TestClient copy = revive(bad, request, concat("w", which));
    const auto end = follow(copy);
    EXPECT_TRUE(end.error || (end.exit && !end.exit->exited)) << which;
  }
  for (std::size_t cut = 0; cut < image.description.size(); cut += 97) {
    EXPECT_FALSE(decode_warm_image(std::string_view{image.description}.substr(0, cut)));
  }
  TestClient without = connect();
  ASSERT_TRUE(without.send(Kind::kRevive, encode(ReviveRequest{request, image.description})));
  EXPECT_TRUE(follow(without).error);
  TestClient copy = revive(image, request, "good");
  EXPECT_NE(channel_until(copy, "woken ").find("woken 42"), std::string::npos);
}

// Signals that look like the stops of a revival: it may end, but nobody goes astray, and no copy
// runs as anything but the program.
TEST_F(AgentWarm, ForgedStopsAreNotTakenForItsOwn) {
  auto request = program("p", "", "say(os.readlink('/proc/self/exe'))");
  request.user = "65534";
  request.cwd = "/";
  TestClient client = spawn(request);
  const Image image = capture(client, request);
  ASSERT_EQ(image.refused, "");
  channel_until(client, "gone");
  SpawnRequest forger;
  forger.process_id = "forger";
  forger.user = "65534";
  forger.argv = {"/usr/bin/python3", "-c",
                 "import os, signal\n"
                 "known = {int(each) for each in os.listdir('/proc') if each.isdigit()}\n"
                 "print('on', flush=True)\n"
                 "while True:\n"
                 "    for each in os.listdir('/proc'):\n"
                 "        if each.isdigit() and int(each) not in known:\n"
                 "            try: os.kill(int(each), signal.SIGTRAP)\n"
                 "            except OSError: pass\n"};
  TestClient forging = spawn(forger);
  channel_until(forging, "on");
  for (int i = 0; i < 30; ++i) {
    TestClient copy = revive(image, request, concat("f", i));
    const auto end = follow(copy);
    EXPECT_TRUE(end.error || end.exit) << i;
    EXPECT_TRUE(end.channel.empty() || end.channel.starts_with("/usr/bin/python3")) << end.channel;
  }
  TestClient remover = connect();
  remover.send(Kind::kRemoveProcess, encode_id("forger"));
  (void)remover.receive();
  TestClient good = revive(image, request, "good");
  EXPECT_NE(channel_until(good, "woken ").find("woken 42"), std::string::npos);
}

TEST_F(AgentWarm, AChildThatAsksToBeTracedIsLetGo) {
  SpawnRequest request;
  request.process_id = "t";
  request.argv = {"/usr/bin/python3", "-c",
                  "import ctypes, os, signal\n"
                  "ctypes.CDLL(None).ptrace(0, 0, 0, 0)\n"
                  "os.kill(os.getpid(), signal.SIGCHLD)\n"
                  "print('on')"};
  const auto result = run(request);
  ASSERT_TRUE(result.exit);
  EXPECT_TRUE(result.exit->exited);
  EXPECT_EQ(result.output, "on\n");
}

}  // namespace
}  // namespace atl::guest
