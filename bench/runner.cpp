#include "runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "base/strings.h"

extern char** environ;

namespace atl::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMostFailures = 100;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

std::vector<char*> words_of(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const auto& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  return words;
}

// {number} is another one every time: for names that two at a time must not share.
std::vector<std::string> numbered(std::vector<std::string> command) {
  static std::atomic<std::uint64_t> next{0};
  constexpr std::string_view kMark = "{number}";
  for (auto& word : command) {
    if (const auto at = word.find(kMark); at != std::string::npos) {
      word.replace(at, kMark.size(), concat(next++));
    }
  }
  return command;
}

// Whoever does and says nothing for so long hangs, and is ended.
Result<> await(int descriptor, const std::string& who, std::size_t silence_ms) {
  pollfd waiting{descriptor, POLLIN, 0};
  int ready = 0;
  while ((ready = ::poll(&waiting, 1, static_cast<int>(silence_ms))) < 0 && errno == EINTR) {
  }
  return ready == 1
             ? Result<>{}
             : fail(Code::kDeadlineExceeded, concat(who, " did nothing for ", silence_ms, " ms"));
}

// The end of its output, and then its own.
Result<> await_end(int output, pid_t pid, const std::string& name, std::size_t silence_ms) {
  char buffer[4096];
  do {
    TRY_DO(await(output, name, silence_ms));
  } while (::read(output, buffer, sizeof buffer) > 0);
  const Fd process{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
  return process ? await(process.get(), name, silence_ms) : fail_errno("pidfd_open");
}

// From spawn to the end of its output and its exit.
Result<> run_program(const std::vector<std::string>& command, std::size_t silence_ms) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail_errno("pipe");
  }
  const Fd output{ends[0]};
  Fd writer{ends[1]};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, writer.get(), STDOUT_FILENO);
  posix_spawnattr_t attributes;  // a group of its own: what hangs is ended with all it started
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, command[0].c_str(), &actions, &attributes,
                                   words_of(command).data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return fail(errno_error(command[0], error));
  }
  writer.reset();
  if (auto ended = await_end(output.get(), pid, command[0], silence_ms); !ended) {
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return ended;
  }
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return fail(Code::kInternal, concat(command[0], " ended with status ", status));
  }
  return {};
}

// The value of a string member, wherever it is first: answers are ours and compact.
std::string_view member_of(std::string_view answer, std::string_view field) {
  const std::string key = concat("\"", field, "\":\"");
  const auto begin = answer.find(key);
  if (begin == std::string_view::npos) {
    return {};
  }
  const auto value = answer.substr(begin + key.size());
  return value.substr(0, value.find('"'));
}

}  // namespace

struct Runner::Worker {
  explicit Worker(Connection made) : connection(std::move(made)) {}

  // Replaces {name} by a variable's value; other braces stay, JSON has many.
  std::string filled(const std::string& text) const {
    std::string whole = text;
    for (const auto& [name, value] : variables) {
      const std::string mark = concat("{", name, "}");
      for (std::size_t at = 0; (at = whole.find(mark, at)) != std::string::npos;
           at += value.size()) {
        whole.replace(at, mark.size(), value);
      }
    }
    return whole;
  }

  Connection connection;
  std::map<std::string, std::string> variables;
};

// A program that answers a number on its input with that many nanoseconds; see floor.cpp.
struct Runner::Floor {
  ~Floor() {
    input.reset();
    if (pid <= 0) {
      return;
    }
    if (!await_end(output.get(), pid, "the floor", silence_ms)) {
      ::kill(pid, SIGKILL);
    }
    ::waitpid(pid, nullptr, 0);
  }
  std::size_t silence_ms = 0;
  pid_t pid = 0;
  Fd input;
  Fd output;
};

Runner::Runner(const Contestant& contestant, std::size_t workers, std::size_t silence_ms)
    : contestant_(contestant), silence_ms_(silence_ms) {
  workers_.resize(workers);
}
Runner::~Runner() = default;

Result<> Runner::setup() {
  if (!contestant_.floor.empty()) {
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) {
      return fail_errno("pipe");
    }
    floor_ = std::make_unique<Floor>();
    floor_->silence_ms = silence_ms_;
    floor_->input = Fd{in[1]};
    floor_->output = Fd{out[0]};
    const Fd reading{in[0]};
    const Fd writing{out[1]};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, reading.get(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
    const int error = ::posix_spawnp(&floor_->pid, contestant_.floor[0].c_str(), &actions, nullptr,
                                     words_of(contestant_.floor).data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    return error == 0 ? Result<>{} : fail(errno_error(contestant_.floor[0], error));
  }
  for (auto& worker : workers_) {
    TRY(auto connection,
        Connection::to(contestant_.url.empty() ? "http://0.0.0.0:0" : contestant_.url,
                       contestant_.authorization, silence_ms_));
    worker = std::make_unique<Worker>(std::move(connection));
    TRY_DO(run_steps(*worker, contestant_.setup));
  }
  return {};
}

Result<> Runner::teardown() {
  floor_.reset();
  Result<> outcome;
  if (gave_up_) {  // it is not worth as many minutes as there are workers
    return outcome;
  }
  for (auto& worker : workers_) {
    if (worker != nullptr) {
      if (auto one = run_steps(*worker, contestant_.teardown); !one && outcome) {
        outcome = std::move(one);
      }
    }
  }
  return outcome;
}

Result<> Runner::run_steps(Worker& worker, const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    TRY(const auto answer, worker.connection.call(step.method, worker.filled(step.path), step.type,
                                                  worker.filled(step.body)));
    if (!step.expect.empty() && answer.find(step.expect) == std::string_view::npos) {
      return fail(Code::kInternal, concat(step.path, " answered without ", step.expect, ": ",
                                          answer.substr(0, 400)));
    }
    for (const auto& [name, field] : step.save) {
      const auto value = member_of(answer, field);
      if (value.empty()) {
        return fail(Code::kInternal, concat(step.path, " answered without ", field));
      }
      worker.variables[name] = value;
    }
  }
  return {};
}

Result<> Runner::operate(Worker& worker, const std::string& item, bool counts) {
  if (!item.empty()) {
    worker.variables["item"] = item;
  }
  const auto command = numbered(contestant_.command);
  const auto begin = Clock::now();
  if (command.empty()) {
    TRY_DO(run_steps(worker, contestant_.timed));
  } else {
    TRY_DO(run_program(command, silence_ms_));
  }
  const double taken = microseconds_since(begin);
  const auto after_begin = Clock::now();
  TRY_DO(run_steps(worker, contestant_.after));
  const double after = microseconds_since(after_begin);
  const std::lock_guard lock{mutex_};
  if (counts) {
    outcome_.microseconds.push_back(taken);
    if (!contestant_.after.empty()) {
      outcome_.after_microseconds.push_back(after);
    }
  }
  if (!contestant_.collect.empty()) {
    outcome_.collected.push_back(worker.variables[contestant_.collect]);
  }
  return {};
}

void Runner::record_failure(const Error& error) {
  const std::lock_guard lock{mutex_};
  if (outcome_.failures++ == 0) {
    outcome_.first_failure = error.message;
  }
  // What hangs once is not asked again: each time would cost minutes.
  if (outcome_.failures > kMostFailures || error.code == Code::kDeadlineExceeded) {
    gave_up_ = true;
  }
}

void Runner::work(Worker& worker, double seconds, bool counts) {
  const auto begin = Clock::now();
  const auto goes_on = [&] {
    return seconds > 0 ? microseconds_since(begin) < seconds * 1e6 : next_.fetch_add(1) < last_;
  };
  while (goes_on()) {
    std::string item;
    if (!contestant_.items.empty()) {
      const std::size_t index = next_item_.fetch_add(1);
      if (index >= contestant_.items.size()) {
        return;
      }
      item = contestant_.items[index];
    }
    if (auto done = operate(worker, item, counts); !done) {
      record_failure(done.error());
    }
    if (gave_up_) {
      return;
    }
  }
}

Result<> Runner::ask_floor(bool counts) {
  TRY_DO(write_all(floor_->input.get(), concat(workers_.size(), "\n")));
  std::string line;
  for (char byte = 0; byte != '\n';) {
    TRY_DO(await(floor_->output.get(), contestant_.name, silence_ms_));
    if (::read(floor_->output.get(), &byte, 1) != 1) {
      return fail(Code::kInternal, contestant_.name + " ended");
    }
    line += byte;
  }
  for (const auto word : split(trim(line), ' ')) {
    if (counts) {
      outcome_.microseconds.push_back(static_cast<double>(parse_u64(word).value_or(0)) / 1e3);
    }
  }
  return {};
}

Result<> Runner::turn(double seconds, bool counts) {
  const auto begin = Clock::now();
  if (floor_ != nullptr) {
    TRY_DO(ask_floor(counts));
  } else {
    next_ = 0;
    last_ = contestant_.operations > 0 ? contestant_.operations : workers_.size();
    if (workers_.size() == 1) {
      work(*workers_[0], seconds, counts);
    } else {
      std::vector<std::thread> threads;
      for (auto& worker : workers_) {
        threads.emplace_back([this, seconds, counts, &worker] { work(*worker, seconds, counts); });
      }
      for (auto& thread : threads) {
        thread.join();
      }
    }
  }
  if (counts) {
    outcome_.turn_microseconds.push_back(microseconds_since(begin));
  }
  if (gave_up_) {
    return fail(Code::kInternal, concat(contestant_.name, " failed ", outcome_.failures,
                                        " times, first with: ", outcome_.first_failure));
  }
  return {};
}

}  // namespace atl::bench
