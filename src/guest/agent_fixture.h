// For tests: an agent that runs as PID 1 of its own pid namespace (so that its end is the end of
// everything it started), a temporary directory, and a client that speaks frames.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "guest/agent.h"
#include "guest/agent_client.h"
#include "guest/wire.h"

namespace atl::guest {

// A filesystem of its own, gone with the scope also when an assertion leaves it.
class SmallMount {
 public:
  SmallMount(const std::string& path, const char* options, const char* type = "tmpfs")
      : path_(path), mounted_(::mount("none", path.c_str(), type, 0, options) == 0) {}
  ~SmallMount() {
    if (mounted_) {
      EXPECT_EQ(::umount2(path_.c_str(), MNT_DETACH), 0);
    }
  }
  SmallMount(const SmallMount&) = delete;
  SmallMount& operator=(const SmallMount&) = delete;
  bool mounted() const { return mounted_; }

 private:
  std::string path_;
  bool mounted_;
};

struct RunResult {
  std::optional<Error> error;
  std::optional<ExitStatus> exit;
  std::uint32_t pid = 0;
  std::string output;
  std::string error_output;
  std::string terminal;
  std::string channel;
  std::string all;  // every stream, in order
  std::uint64_t first_offset = UINT64_MAX;
  bool in_order = true;  // offsets had no gap
};

// Reads a process's stream to its end.
inline RunResult follow(TestClient& client) {
  RunResult result;
  std::optional<std::uint64_t> expected;
  while (auto frame = client.receive()) {
    switch (frame->kind) {
      case Kind::kStarted:
        result.pid = decode_number(frame->payload).value_or(0);
        break;
      case Kind::kOutput: {
        const auto output = decode_output(frame->payload);
        if (!output) {
          ADD_FAILURE() << "malformed output";
          return result;
        }
        result.first_offset = std::min(result.first_offset, output->header.offset);
        result.in_order = result.in_order && (!expected || *expected == output->header.offset);
        expected = output->header.offset + output->bytes.size();
        result.all += output->bytes;
        (output->header.stream == Stream::kStdout    ? result.output
         : output->header.stream == Stream::kStderr  ? result.error_output
         : output->header.stream == Stream::kChannel ? result.channel
                                                     : result.terminal)
            .append(output->bytes);
        break;
      }
      case Kind::kExit:
        result.exit = decode_exit(frame->payload).value();
        break;
      case Kind::kError:
        result.error = decode_error(frame->payload);
        break;
      default:
        ADD_FAILURE() << "unexpected frame " << static_cast<int>(frame->kind);
    }
  }
  return result;
}

class AgentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) {
      GTEST_SKIP() << "needs root: users and a pid namespace";
    }
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;  // some tests hold many connections
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
    std::string pattern = "/tmp/atoll-guest-test-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
    Fd listener{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path().c_str());
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener.get(), 2048), 0);
    const int mounts = own_proc_ ? CLONE_NEWNS : 0;
    agent_ = static_cast<pid_t>(
        ::syscall(SYS_clone, CLONE_NEWPID | mounts | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    ASSERT_GE(agent_, 0);
    if (agent_ == 0) {
      if (own_proc_ && (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
                        ::mount("proc", "/proc", "proc", 0, nullptr) != 0)) {
        ::_exit(98);
      }
      auto agent = Agent::create(std::move(listener));
      if (agent) {
        (void)(*agent)->run();
      }
      ::_exit(99);
    }
  }

  void TearDown() override {
    EXPECT_TRUE(agent_ < 0 || agent_alive()) << "the agent died";
    // Asked again on purpose: a number that is not a live child of ours must never reach kill(2),
    // where -1 means every process of the machine.
    if (agent_alive()) {
      ::kill(agent_, SIGKILL);
      ::waitpid(agent_, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  bool agent_alive() {
    if (agent_ <= 1) {
      return false;
    }
    if (::waitpid(agent_, nullptr, WNOHANG) != 0) {
      agent_ = -1;
      return false;
    }
    return true;
  }
  // From outside. Only ever to the live agent itself.
  void signal_agent(int number) {
    ASSERT_TRUE(agent_alive());
    ASSERT_EQ(::kill(agent_, number), 0);
  }

  // How many children the agent has, workers included.
  std::size_t children() const {
    std::size_t count = 0;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator{"/proc", ignored}) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) {
        continue;
      }
      std::ifstream in{entry.path() / "stat"};
      const std::string text{std::istreambuf_iterator<char>{in}, {}};
      const auto name_end = text.rfind(") ");
      if (name_end != std::string::npos) {
        count += std::strtol(text.c_str() + name_end + 4, nullptr, 10) == agent_ ? 1U : 0U;
      }
    }
    return count;
  }

  std::string socket_path() const { return directory_ + "/socket"; }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  TestClient connect() { return TestClient{socket_path()}; }

  static SpawnRequest shell(const std::string& script, const std::string& id = "p") {
    SpawnRequest request;
    request.process_id = id;
    request.argv = {"/bin/sh", "-c", script};
    request.cwd = "/";
    return request;
  }
  TestClient spawn(const SpawnRequest& request) {
    TestClient client = connect();
    EXPECT_TRUE(client.send(Kind::kSpawn, encode(request)));
    return client;
  }
  RunResult run(const SpawnRequest& request) {
    TestClient client = spawn(request);
    return follow(client);
  }
  RunResult attach(const std::string& id, std::uint64_t from_offset = 0) {
    TestClient client = connect();
    client.send(Kind::kAttach, encode(AttachRequest{id, from_offset}));
    return follow(client);
  }
  // One request, all answers.
  std::vector<TestFrame> ask(Kind kind, std::string_view payload = {}) {
    TestClient client = connect();
    EXPECT_TRUE(client.send(kind, payload));
    std::vector<TestFrame> frames;
    while (auto frame = client.receive()) {
      frames.push_back(std::move(*frame));
    }
    return frames;
  }
  std::map<std::string, ProcessInfo> list() {
    std::map<std::string, ProcessInfo> processes;
    const auto frames = ask(Kind::kListProcesses);
    EXPECT_TRUE(!frames.empty() && frames.back().kind == Kind::kEnd);
    for (const auto& frame : frames) {
      if (frame.kind == Kind::kProcess) {
        const auto info = decode_process(frame.payload);
        EXPECT_TRUE(info);
        processes[info->process_id] = *info;
      }
    }
    return processes;
  }
  // The reason of the single kError, or the kind of the last frame as text.
  static std::string outcome(const std::vector<TestFrame>& frames) {
    if (frames.empty()) {
      return "nothing";
    }
    if (frames.back().kind == Kind::kError) {
      return decode_error(frames.back().payload).reason;
    }
    switch (frames.back().kind) {
      case Kind::kDone:
        return "done";
      case Kind::kEnd:
        return "end";
      case Kind::kFile:
        return "file";
      default:
        return "other";
    }
  }

  static std::string slurp(const std::string& file) {
    std::ifstream in{file, std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
  }
  static void put(const std::string& file, std::string_view content) {
    std::ofstream out{file, std::ios::binary};
    out << content;
  }
  // Waits for a file to appear (another process makes it).
  static bool wait_for(const std::string& file) {
    for (int i = 0; i < 6000 && ::access(file.c_str(), F_OK) != 0; ++i) {
      ::usleep(10000);
    }
    return ::access(file.c_str(), F_OK) == 0;
  }

  std::string directory_;
  pid_t agent_ = -1;
  bool own_proc_ = false;  // /proc shows what the agent sees; set before SetUp()
};

// Bytes that have every value and no short period.
inline std::string pattern_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

}  // namespace atl::guest
