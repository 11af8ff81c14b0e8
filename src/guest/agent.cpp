#include "guest/agent.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "base/signals.h"
#include "base/strings.h"
#include "guest/file_worker.h"
#include "guest/host_keys.h"
#include "guest/limits.h"
#include "guest/socket_search.h"
#include "guest/warm_worker.h"

namespace atl::guest {
namespace {

// The agent needs many descriptors, its children get what the agent was started with.
rlimit raise_file_limit() {
  rlimit original{};
  ::getrlimit(RLIMIT_NOFILE, &original);
  rlimit raised = original;
  raised.rlim_cur = raised.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return original;
}

}  // namespace

Agent::Agent(Fd listener, std::unique_ptr<Loop> loop, const rlimit& file_limit)
    : loop_(std::move(loop)),
      listener_(std::move(listener)),
      listener_watch_(*loop_),
      signals_watch_(*loop_),
      processes_(*loop_, file_limit) {}

Agent::~Agent() {
  for (Connection& connection : connections_) {
    if (connection.process != nullptr) {
      connection.process->detach(connection);
    }
  }
}

Result<std::unique_ptr<Agent>> Agent::create(Fd listener) {
  TRY(auto loop, Loop::create());
  std::unique_ptr<Agent> agent{new Agent{std::move(listener), std::move(loop), raise_file_limit()}};
  TRY_DO(agent->start());
  return agent;
}

Result<> Agent::start() {
  // Nothing is ignored and nothing caught, here and so in every child: exec needs no more than the
  // mask. Every signal is blocked and only two are ever taken: SIGCHLD, and SIGPWR of the host.
  reset_signals();
  sigset_t all;
  sigset_t taken;
  ::sigfillset(&all);
  ::sigemptyset(&taken);
  ::sigaddset(&taken, SIGCHLD);
  ::sigaddset(&taken, SIGPWR);
  if (::sigprocmask(SIG_BLOCK, &all, nullptr) != 0) {
    return fail_errno("blocking signals");
  }
  ::prctl(PR_SET_DUMPABLE, 0);
  tell_preparations();
  // As PID 1 orphans come to it anyway; elsewhere this makes them.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  signals_ = Fd{::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (!signals_) {
    return fail_errno("creating the signal descriptor");
  }
  TRY_DO(set_nonblocking(listener_.get(), true));
  ::fcntl(listener_.get(), F_SETFD, FD_CLOEXEC);
  TRY(reserve_, listener_.duplicate());
  TRY_DO(processes_.start());
  TRY_DO(signals_watch_.start(signals_.get(), EPOLLIN, [this](std::uint32_t) { on_child(); }));
  return listener_watch_.start(listener_.get(), EPOLLIN, [this](std::uint32_t) { on_connect(); });
}

Result<> Agent::run() {
  on_child();  // children that ended before the signal was blocked
  for (;;) {
    TRY_DO(loop_->run_once());
    sweep();
  }
}

// --- connections ---------------------------------------------------------------------------

void Agent::on_connect() {
  Fd socket{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  if (socket) {
    admit(std::move(socket));
    return;
  }
  if (errno == EMFILE || errno == ENFILE) {
    // Without a descriptor the client would stay in the queue and wake the loop for ever.
    reserve_.reset();
    socket = Fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    socket.reset();
    if (auto again = listener_.duplicate()) {
      reserve_ = *std::move(again);
    }
    drop_oldest_idle();
  }
}

void Agent::admit(Fd socket) {
  // A dump that goes on as a fork finds a disk without the keys of its parent.
  if (std::exchange(may_be_a_copy_, false)) {
    make_missing_host_keys();
  }
  const bool full = connections_.size() >= kMaxConnections && !drop_oldest_idle();
  Connection& connection = connections_.emplace_back(static_cast<Connection::Owner&>(*this), *loop_,
                                                     std::move(socket), next_serial_++);
  if (!connection.start()) {
    connection.close();
  } else if (full) {
    connection.requested = true;
    connection.send_error(
        Error{Code::kResourceExhausted,
              concat("the sandbox already serves ", kMaxConnections, " connections"),
              "resource_exhausted"});
    connection.close();
  } else {
    connection.try_input();  // whoever connects has something to say
  }
}

bool Agent::drop_oldest_idle() {
  for (Connection& connection : connections_) {
    const bool idle = !connection.requested || connection.finishing();
    if (idle && !connection.closed()) {
      connection.close();
      return true;
    }
  }
  return false;
}

void Agent::on_frame(Connection& connection, Kind kind, std::string_view payload) {
  if (connection.requested) {
    if (connection.process != nullptr) {
      connection.process->on_frame(connection, kind, payload);
    } else {
      connection.send_error(
          Error{Code::kInvalidArgument, "this operation takes no further frames", "malformed"});
    }
    return;
  }
  connection.requested = true;
  begin(connection, kind, payload);
}

void Agent::begin(Connection& connection, Kind kind, std::string_view payload) {
  switch (kind) {
    case Kind::kPing: {
      Pong pong;
      pong.process_count = static_cast<std::uint32_t>(processes_.count());
      connection.send(Kind::kPong, encode(pong));
      connection.finish();
      return;
    }
    case Kind::kSpawn:
      processes_.spawn(connection, payload);
      return;
    case Kind::kCapture:
      serve_capture(connection, payload);
      return;
    case Kind::kFindSocket:
      serve_socket_search(connection, payload);
      return;
    case Kind::kRevive:
      if (preparing_) {
        connection.send_error(
            Error{Code::kUnavailable, "the sandbox is about to be dumped", "unavailable"});
        return;
      }
      processes_.revive(connection, payload);
      return;
    case Kind::kAttach:
      processes_.attach(connection, payload);
      return;
    case Kind::kListProcesses:
      processes_.list(connection);
      return;
    case Kind::kGetProcess:
      processes_.get(connection, payload);
      return;
    case Kind::kSignalProcess:
      processes_.signal(connection, payload);
      return;
    case Kind::kRemoveProcess:
      processes_.remove(connection, payload);
      return;
    default:
      break;
  }
  if (is_file_request(kind)) {
    serve_file(connection, kind, payload);
    return;
  }
  connection.send_error(
      Error{Code::kInvalidArgument,
            concat("frame kind ", static_cast<unsigned>(kind), " is not a request"), "malformed"});
}

void Agent::serve_file(Connection& connection, Kind kind, std::string_view payload) {
  // Watches last, so they have a bound of their own and never keep other requests out.
  const bool watch = kind == Kind::kWatch;
  auto& workers = watch ? watchers_ : file_workers_;
  const std::size_t limit = watch ? kMaxWatchers : kMaxFileWorkers;
  if (workers.size() >= limit) {
    connection.send_error(Error{
        Code::kResourceExhausted,
        concat("the sandbox already serves ", limit, watch ? " file watches" : " file requests"),
        "resource_exhausted"});
    return;
  }
  const pid_t pid = ::fork();
  if (pid < 0) {
    connection.send_error(errno_error("starting a file worker"));
    return;
  }
  if (pid == 0) {
    run_file_worker(connection.socket(), kind, payload, connection.input_after_frame());
  }
  workers.insert(pid);
  connection.close();  // the worker has it now
}

void Agent::serve_capture(Connection& connection, std::string_view payload) {
  const auto order = processes_.order_capture(payload);
  if (!order) {
    connection.send_error(order.error());
    return;
  }
  if (captures_.size() >= kMaxCaptures) {
    connection.send_error(Error{Code::kResourceExhausted,
                                concat("the sandbox already captures ", kMaxCaptures, " processes"),
                                "resource_exhausted"});
    return;
  }
  const pid_t pid = ::fork();
  if (pid < 0) {
    connection.send_error(errno_error("starting a worker"));
    return;
  }
  if (pid == 0) {
    run_capture_worker(connection.socket(), *order);
  }
  captures_.insert(pid);
  connection.close();  // the worker has it now
}

void Agent::serve_socket_search(Connection& connection, std::string_view payload) {
  const auto request = decode_find_socket(payload);
  if (!request) {
    connection.send_error(request.error());
    return;
  }
  if (searches_.size() >= kMaxSocketSearches) {
    connection.send_error(Error{Code::kResourceExhausted,
                                "the sandbox already looks for other holders of sockets",
                                "resource_exhausted"});
    return;
  }
  const pid_t pid = ::fork();
  if (pid < 0) {
    connection.send_error(errno_error("starting a worker"));
    return;
  }
  if (pid == 0) {
    run_socket_search(connection.socket(), *request, processes_.leaders());
  }
  searches_.insert(pid);
  connection.close();  // the worker has it now
}

void Agent::on_drained(Connection& connection) {
  if (connection.process != nullptr) {
    connection.process->on_drained(connection);
  } else if (connection.listing) {
    processes_.list(connection);
  }
}

void Agent::on_peer_gone(Connection& connection) {
  if (connection.process != nullptr) {
    connection.process->on_peer_gone(connection);
  } else {
    connection.close();
  }
}

void Agent::on_closed(Connection& connection) {
  (void)connection;
  dirty_ = true;
}

void Agent::sweep() {
  // Letting go of a connection can end a process, which can close further connections.
  while (dirty_) {
    dirty_ = false;
    for (auto it = connections_.begin(); it != connections_.end();) {
      if (!it->closed()) {
        ++it;
        continue;
      }
      if (it->process != nullptr) {
        it->process->detach(*it);
      }
      it = connections_.erase(it);
    }
  }
  processes_.sweep();
}

// --- children ------------------------------------------------------------------------------

void Agent::on_child() {
  // Two kinds are taken, each waits at most once: one read is all.
  std::array<signalfd_siginfo, 4> taken;
  const ssize_t got = ::read(signals_.get(), taken.data(), sizeof taken);
  const auto count = static_cast<std::size_t>(std::max<ssize_t>(got, 0)) / sizeof taken[0];
  for (const auto& info : std::span{taken}.first(count)) {
    // A sender without a pid here is outside: the host is about to dump this sandbox. Whoever
    // queues a signal in here may claim any pid, but never SI_USER.
    if (info.ssi_signo == SIGPWR && info.ssi_pid == 0 && info.ssi_code == SI_USER) {
      prepare_dump();
    }
  }
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid < 0 && errno == EINTR) {
      continue;
    }
    if (pid <= 0) {
      break;
    }
    if (WIFSTOPPED(status)) {
      processes_.on_stopped(pid, status >> 8);
      continue;
    }
    if (!processes_.on_reaped(pid, status)) {
      file_workers_.erase(pid);
      watchers_.erase(pid);
      captures_.erase(pid);
      searches_.erase(pid);
      if (pid == owner_) {
        owner_ = -1;
      }
    }
  }
  processes_.check_removals();
  go_on_preparing();
}

}  // namespace atl::guest
