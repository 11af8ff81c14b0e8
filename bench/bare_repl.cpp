// The floor of a REPL: interpreters on the host, driven over pipes, with nothing in between.
//
//   atoll-bare-repl python3 -i -q -u
//
// Like atoll-floor: a number on standard input asks for so many executions at once, each in an
// interpreter of its own that waits at its prompt; the line that comes back has the nanoseconds of
// each, from the line that is sent to the result and the next prompt. Ends with its input.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/strings.h"
#include "counts.h"

extern char** environ;

namespace atl::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kMostAtOnce = 1024;
constexpr int kMostSilenceMs = 60'000;
constexpr std::string_view kPrompt = ">>> ";
constexpr std::string_view kCode = "6*7\n";
constexpr std::string_view kAnswer = "42\n>>> ";

class Interpreter {
 public:
  explicit Interpreter(char** command) {
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) {
      return;
    }
    const Fd reading{in[0]};
    const Fd writing{out[1]};
    input_ = Fd{in[1]};
    output_ = Fd{out[0]};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, reading.get(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDERR_FILENO);
    if (::posix_spawnp(&pid_, command[0], &actions, nullptr, command, environ) != 0) {
      pid_ = 0;
    }
    ::posix_spawn_file_actions_destroy(&actions);
  }
  ~Interpreter() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  int output() const { return output_.get(); }

  Result<> start() {
    text_.clear();
    return write_all(input_.get(), kCode);
  }

  // What it wrote by now; true when that ends with `end`.
  Result<bool> take(std::string_view end) {
    char buffer[4096];
    const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
    if (got <= 0) {
      return fail(Code::kInternal, concat("the interpreter ended: ", text_));
    }
    text_.append(buffer, static_cast<std::size_t>(got));
    return text_.ends_with(end);
  }

 private:
  pid_t pid_ = 0;
  Fd input_;
  Fd output_;
  std::string text_;
};

// Until each has written something that ends so; `settled` is told of each.
template <class Settled>
Result<> await_all(std::span<const std::unique_ptr<Interpreter>> all, std::string_view end,
                   const Settled& settled) {
  std::vector<pollfd> waiting;
  for (const auto& each : all) {
    waiting.push_back({each->output(), POLLIN, 0});
  }
  for (std::size_t left = all.size(); left > 0;) {
    const int ready = ::poll(waiting.data(), waiting.size(), kMostSilenceMs);
    if (ready == 0) {
      return fail(Code::kDeadlineExceeded, "an interpreter does not answer");
    }
    for (std::size_t i = 0; ready > 0 && i < all.size(); ++i) {
      if (waiting[i].fd < 0 || waiting[i].revents == 0) {
        continue;
      }
      TRY(const bool done, all[i]->take(end));
      if (done) {
        settled(i);
        waiting[i].fd = -1;
        --left;
      }
    }
  }
  return {};
}

class Repls {
 public:
  explicit Repls(char** command) : command_(command) {}

  Result<std::vector<std::uint64_t>> execute(std::size_t count) {
    while (all_.size() < count) {
      all_.push_back(std::make_unique<Interpreter>(command_));
      TRY_DO(await_all(std::span{all_}.last(1), kPrompt, [](std::size_t) {}));
    }
    std::vector<Clock::time_point> begun(count);
    std::vector<std::uint64_t> taken(count);
    for (std::size_t i = 0; i < count; ++i) {
      begun[i] = Clock::now();
      TRY_DO(all_[i]->start());
    }
    TRY_DO(await_all(std::span{all_}.first(count), kAnswer, [&](std::size_t i) {
      const std::chrono::nanoseconds spent = Clock::now() - begun[i];
      taken[i] = static_cast<std::uint64_t>(spent.count());
    }));
    return taken;
  }

 private:
  char** command_;
  std::vector<std::unique_ptr<Interpreter>> all_;
};

Result<> run(int argc, char** argv) {
  if (argc < 2) {
    return fail(Code::kInvalidArgument, "usage: atoll-bare-repl COMMAND...");
  }
  Repls repls{argv + 1};
  return answer_counts(kMostAtOnce, [&](std::uint64_t count) { return repls.execute(count); });
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  if (const auto result = atl::bench::run(argc, argv); !result) {
    std::fprintf(stderr, "atoll-bare-repl: %s\n", result.error().message.c_str());
    return 1;
  }
  return 0;
}
