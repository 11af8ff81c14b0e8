#include "daemon/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/log.h"
#include "base/strings.h"

namespace atl::daemon {
namespace {

using namespace std::chrono_literals;

constexpr auto kDeathWindow = 60s;
constexpr std::size_t kMaxDeaths = 5;  // within the window
constexpr auto kFirstPause = 100ms;
constexpr auto kApiStopTime = 12s;  // it drains for at most 10
constexpr auto kNodeStopTime = 60s;
constexpr int kStragglerRounds = 100;
constexpr int kStragglerPauseMs = 100;
constexpr std::size_t kMaxReportBytes = 256;

std::string host_for_url(const std::string& host) {
  if (host == "0.0.0.0") {
    return "127.0.0.1";
  }
  if (host == "::") {
    return "[::1]";
  }
  return host.contains(':') ? concat("[", host, "]") : host;
}

}  // namespace

Supervisor::Supervisor(Parts parts) : parts_(std::move(parts)) {}

Result<> Supervisor::run() {
  TRY_DO(start(node_));
  while (phase_ != Phase::kDone) {
    wait_for_something();
    take_signals();
    take_report(node_);
    take_report(api_);
    reap();
    act_on_deadlines();
  }
  // When the node could not be kept running its sandboxes go on; the next start adopts them.
  if (outcome_ || stop_requests_ > 0) {
    end_stragglers();
  }
  return outcome_;
}

Result<> Supervisor::start_node() {
  TRY(ReadyPipe pipe, make_ready_pipe());
  NodeOptions options = parts_.node;
  options.common.ready_fd = pipe.write_end.get();
  std::vector<int> fds = {options.common.ready_fd, options.lock_fd};
  if (options.common.fault_fd >= 0) {
    fds.push_back(options.common.fault_fd);
  }
  TRY(node_.pid, start_child(to_words(options), fds));
  node_.ready = std::move(pipe.read_end);
  return {};
}

Result<> Supervisor::start_api() {
  TRY(ReadyPipe pipe, make_ready_pipe());
  ApiOptions options = parts_.api;
  options.common.ready_fd = pipe.write_end.get();
  std::vector<int> fds = {options.common.ready_fd, options.admin_fd, options.secrets_fd};
  for (const int optional_fd :
       {options.listen_fd, options.tls_fd, options.egress.roots_fd, options.common.fault_fd}) {
    if (optional_fd >= 0) {
      fds.push_back(optional_fd);
    }
  }
  TRY(api_.pid, start_child(to_words(options), fds));
  api_.ready = std::move(pipe.read_end);
  return {};
}

Result<> Supervisor::start(Service& service) {
  service.restart_at.reset();
  service.said.clear();
  return &service == &node_ ? start_node() : start_api();
}

void Supervisor::wait_for_something() {
  std::optional<Clock::time_point> until;
  const auto consider = [&](Clock::time_point when) {
    until = until ? std::min(*until, when) : when;
  };
  if (phase_ != Phase::kRunning) {
    consider(stop_deadline_);
  } else {
    for (const Service* service : {&node_, &api_}) {
      if (service->restart_at) {
        consider(*service->restart_at);
      }
    }
  }
  int timeout_ms = -1;
  if (until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now());
    timeout_ms = static_cast<int>(std::max<std::int64_t>(0, left.count()));
  }
  // A negative descriptor is ignored by poll.
  pollfd waiting[] = {{parts_.signals, POLLIN, 0},
                      {node_.ready ? node_.ready.get() : -1, POLLIN, 0},
                      {api_.ready ? api_.ready.get() : -1, POLLIN, 0}};
  CHECK(::poll(waiting, 3, timeout_ms) >= 0 || errno == EINTR);
}

void Supervisor::take_signals() {
  signalfd_siginfo info{};
  while (::read(parts_.signals, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo != SIGCHLD) {
      LOG_INFO("stopping", {"because", ::sigabbrev_np(static_cast<int>(info.ssi_signo))});
      ask_to_stop();
    }
  }
}

// Collects a child's line; its end without one is its death, which reap() sees.
void Supervisor::take_report(Service& service) {
  char buffer[kMaxReportBytes];
  while (service.ready) {
    const ssize_t got = ::read(service.ready.get(), buffer, sizeof buffer);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    if (got <= 0 || service.said.size() > kMaxReportBytes) {
      service.ready.reset();
      return;
    }
    service.said.append(buffer, static_cast<std::size_t>(got));
    if (service.said.starts_with("ready ") && service.said.ends_with('\n')) {
      service.ready.reset();
      on_ready(service);
    }
  }
}

void Supervisor::on_ready(Service& service) {
  service.was_ready = true;
  if (phase_ != Phase::kRunning) {
    return;
  }
  if (&service == &node_) {
    if (api_.pid == 0 && !api_.restart_at) {
      if (auto started = start(api_); !started) {
        give_up(std::move(started).error());
      }
    }
    return;
  }
  const auto port = parse_u64(trim(std::string_view{service.said}.substr(6)));
  if (!port || *port == 0 || *port > UINT16_MAX) {
    give_up({Code::kInternal, "the API process reported no port", ""});
    return;
  }
  parts_.api.port = static_cast<std::uint16_t>(*port);  // a restarted one must have the same
  if (!announced_) {
    announced_ = true;
    announce();
    parts_.notifier.send("READY=1");
  }
}

void Supervisor::announce() {
  const std::string url = concat(parts_.api.tls_fd >= 0 ? "https" : "http", "://",
                                 host_for_url(parts_.api.host), ":", parts_.api.port);
  if (!parts_.greeter.empty()) {
    auto words = parts_.greeter;
    words.insert(words.end(), {"--api-url", url});
    // It ends by itself; reap() takes it like any orphan.
    if (auto started = start_child(words, {}); started) {
      return;
    }
  }
  std::printf(
      "atoll is ready on %s (data in %s)\n"
      "The admin key is in %s. Use it like this:\n"
      "  export ATOLL_API_URL=%s ATOLL_KEY_FILE=%s\n"
      "  atoll run --rm -- python3 -c 'print(6 * 7)'\n",
      url.c_str(), parts_.layout.data_dir.c_str(), parts_.layout.admin_key().c_str(), url.c_str(),
      parts_.layout.admin_key().c_str());
  std::fflush(stdout);
}

void Supervisor::reap() {
  int status = 0;
  // Also children that are not ours by birth, and those that send no SIGCHLD.
  while (const pid_t pid = ::waitpid(-1, &status, WNOHANG | __WALL)) {
    if (pid < 0) {
      return;
    }
    for (Service* service : {&node_, &api_}) {
      if (service->pid == pid) {
        service->pid = 0;
        take_report(*service);  // what it said last
        service->ready.reset();
        on_death(*service, status);
      }
    }
  }
}

void Supervisor::on_death(Service& service, int wait_status) {
  if (phase_ == Phase::kStoppingApi && &service == &api_) {
    stop_node();
    return;
  }
  if (phase_ == Phase::kStoppingNode && &service == &node_) {
    if (wait_status != 0 && outcome_) {
      outcome_ = fail(Code::kInternal, concat("the node process ended with ",
                                              describe_end(wait_status), " while stopping"));
    }
    phase_ = Phase::kDone;
    return;
  }
  if (phase_ != Phase::kRunning) {
    return;
  }
  if (!service.was_ready) {
    give_up(
        {Code::kUnavailable,
         concat("the ", service.name, " process could not start (", describe_end(wait_status), ")"),
         ""});
    return;
  }
  const auto now = Clock::now();
  if (parts_.node.common.fault_fd >= 0) {  // dying is what it is here for
    service.restart_at = now;
    LOG_INFO("a process of a test died and is started again", {"service", service.name});
    return;
  }
  service.deaths.push_back(now);
  while (now - service.deaths.front() > kDeathWindow) {
    service.deaths.pop_front();
  }
  if (service.deaths.size() > kMaxDeaths) {
    give_up({Code::kUnavailable,
             concat("the ", service.name, " process died ", service.deaths.size(),
                    " times within a minute, last by ", describe_end(wait_status)),
             ""});
    return;
  }
  const auto pause = service.deaths.size() == 1 ? 0ms : kFirstPause * (1 << service.deaths.size());
  service.restart_at = now + pause;
  LOG_ERROR("a process died and is started again", {"service", service.name},
            {"ended_by", describe_end(wait_status)}, {"pause_ms", pause.count()},
            {"deaths_in_a_minute", service.deaths.size()});
}

void Supervisor::act_on_deadlines() {
  const auto now = Clock::now();
  for (Service* service : {&node_, &api_}) {
    if (phase_ == Phase::kRunning && service->restart_at && *service->restart_at <= now) {
      if (auto started = start(*service); !started) {
        give_up(std::move(started).error());
      }
    }
  }
  if (phase_ == Phase::kStoppingApi && stop_deadline_ <= now) {
    LOG_WARN("the API process does not end; killing it");
    ::kill(api_.pid, SIGKILL);
    stop_deadline_ = now + kApiStopTime;
  } else if (phase_ == Phase::kStoppingNode && stop_deadline_ <= now) {
    LOG_ERROR("the node process does not end; killing it");
    ::kill(node_.pid, SIGKILL);
    stop_deadline_ = now + kNodeStopTime;
  }
}

// The first request drains, the second does not wait for the API, the third for nobody.
void Supervisor::ask_to_stop() {
  ++stop_requests_;
  if (phase_ == Phase::kRunning) {
    parts_.notifier.send("STOPPING=1");
    stop_api();
  } else if (stop_requests_ >= 2 && phase_ == Phase::kStoppingApi) {
    ::kill(api_.pid, SIGKILL);
  } else if (stop_requests_ >= 3 && phase_ == Phase::kStoppingNode) {
    ::kill(node_.pid, SIGKILL);
  }
}

void Supervisor::give_up(Error error) {
  if (outcome_) {
    outcome_ = fail(std::move(error));
  }
  if (phase_ == Phase::kRunning) {
    stop_api();
  }
}

void Supervisor::stop_api() {
  phase_ = Phase::kStoppingApi;
  stop_deadline_ = Clock::now() + kApiStopTime;
  if (api_.pid == 0) {
    stop_node();
  } else {
    ::kill(api_.pid, SIGTERM);
  }
}

// A node that is dead right now is started once more: only a node can end its sandboxes cleanly.
void Supervisor::stop_node() {
  phase_ = Phase::kStoppingNode;
  stop_deadline_ = Clock::now() + kNodeStopTime;
  if (node_.pid == 0 && node_.restart_at && !start(node_)) {
    node_.pid = 0;
  }
  if (node_.pid == 0) {
    phase_ = Phase::kDone;
  } else {
    ::kill(node_.pid, SIGTERM);
  }
}

// Whatever lost its parent and still runs: tools of a template build that was cut short. After a
// node that had to be killed also its sandboxes.
void Supervisor::end_stragglers() {
  const std::string path = concat("/proc/self/task/", ::getpid(), "/children");
  for (int round = 0; round < kStragglerRounds; ++round) {
    reap();
    const auto children = read_file(path);
    if (!children || trim(*children).empty()) {
      return;
    }
    for (const std::string_view word : split(trim(*children), ' ')) {
      if (const auto pid = parse_u64(word)) {
        ::kill(static_cast<pid_t>(*pid), SIGKILL);
      }
    }
    signalfd_siginfo info{};
    pollfd waiting{parts_.signals, POLLIN, 0};
    (void)::poll(&waiting, 1, kStragglerPauseMs);
    while (::read(parts_.signals, &info, sizeof info) > 0) {
    }
  }
  LOG_ERROR("processes are left that cannot be ended");
}

}  // namespace atl::daemon
