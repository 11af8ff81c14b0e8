// Capturing and reviving processes, and everything that must be refused.
#include "guest/agent_warm_fixture.h"

namespace atl::guest {
namespace {

using Image = WarmTestImage;

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
  // Apart: what it prints comes by another way, and may come in between.
  EXPECT_NE(said.find(" 5 True\n"), std::string::npos) << said;
  EXPECT_NE(said.find("\n(0, 0) 5\n"), std::string::npos) << said;
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
