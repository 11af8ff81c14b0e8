#include "guest/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/strings.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

std::int64_t clock_ms(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

}  // namespace

std::int64_t monotonic_ms() {
  return clock_ms(CLOCK_MONOTONIC);
}

Process::Process(Owner& owner, Loop& loop, JournalBudget& budget, std::uint64_t serial,
                 const SpawnRequest& request, pid_t pid)
    : owner_(owner),
      serial_(serial),
      pid_(pid),
      journal_(request.journal_bytes, budget),
      status_watch_(loop),
      input_(loop),
      sources_{Source{loop}, Source{loop}, Source{loop}},
      channel_input_(loop),
      forget_after_ms_(static_cast<std::int64_t>(request.forget_after_ms)),
      unread_matters_(request.keep && request.journal_bytes >= 4 * kJournalChunkBytes),
      idle_timeout_ms_(static_cast<std::int64_t>(request.idle_timeout_ms)),
      active_at_ms_(monotonic_ms()) {
  info_.process_id = request.process_id;
  info_.pid = static_cast<std::uint32_t>(pid);
  info_.argv = request.argv;
  info_.cwd = request.cwd;
  info_.user = request.user;
  info_.started_unix_ms = clock_ms(CLOCK_REALTIME);
  info_.keep = request.keep;
  info_.pty = request.pty.has_value();
  info_.running = true;
  info_.has_channel = request.channel;
  info_.label = request.label;
  if (request.timeout_ms > 0) {
    timeout_at_ms_ = active_at_ms_ + static_cast<std::int64_t>(request.timeout_ms);
  }
  if (idle_timeout_ms_ > 0) {
    idle_at_ms_ = active_at_ms_ + idle_timeout_ms_;
  }
}

Result<> Process::start(Spawned spawned, const SpawnRequest& request) {
  if (spawned.terminal) {
    TRY(terminal_, spawned.terminal.duplicate());
    TRY_DO(watch_source(sources_[0], std::move(spawned.terminal), Stream::kPty));
  } else {
    TRY_DO(watch_source(sources_[0], std::move(spawned.output), Stream::kStdout));
    TRY_DO(watch_source(sources_[1], std::move(spawned.error_output), Stream::kStderr));
  }
  has_input_ = static_cast<bool>(spawned.input);
  if (spawned.input) {
    TRY_DO(input_.start(std::move(spawned.input), request.pty.has_value(),
                        [this] { hold_clients(); }));
  }
  if (spawned.channel) {
    TRY(auto writer, spawned.channel.duplicate());
    TRY_DO(channel_input_.start(std::move(writer), false, [this] { hold_clients(); }));
    TRY_DO(watch_source(sources_[kChannelSource], std::move(spawned.channel), Stream::kChannel));
  }
  status_fd_ = std::move(spawned.status);
  // Its end is all that counts: the exec closes it, or a child that gave up.
  return status_watch_.start(status_fd_.get(), 0, [this](std::uint32_t) { on_status(); });
}

Result<> Process::watch_source(Source& source, Fd fd, Stream stream) {
  source.stream = stream;
  TRY_DO(source.watch.start(
      fd.get(), EPOLLIN, [this, &source](std::uint32_t events) { on_readable(source, events); }));
  source.fd = std::move(fd);
  return {};
}

// --- start ---------------------------------------------------------------------------------

void Process::on_status() {
  char buffer[1024];
  ssize_t got = 0;
  do {
    got = ::read(status_fd_.get(), buffer, sizeof buffer);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    status_.append(buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  } while (got > 0 && status_.size() < kMaxStatusBytes);
  status_watch_.stop();
  status_fd_.reset();
  starting_ = false;
  auto report = parse_status(status_);
  status_ = {};
  if (!report) {
    on_start_failed(report.error());
    return;
  }
  info_.cwd = std::move(report->cwd);
  info_.user = std::move(report->user);
  settle();
}

void Process::on_start_failed(const Error& error) {
  info_.running = false;
  for (Source& source : sources_) {
    source.watch.stop();
    source.fd.reset();
  }
  input_.close();
  channel_input_.close();
  for (Reader& reader : readers_) {
    reader.connection->send_error(error);
  }
  forget();
}

// --- clients -------------------------------------------------------------------------------

void Process::attach(Connection& connection, std::uint64_t from_offset, Role role) {
  connection.process = this;
  const auto cursor = journal_.seek(from_offset);
  readers_.push_back(Reader{.connection = &connection,
                            .cursor = cursor,
                            .owner = role == Role::kOwner,
                            .contiguous = cursor.offset <= read_offset_});
  if (input_full()) {
    connection.hold_input(true);
  }
  settle();
}

void Process::on_drained(Connection& connection) {
  (void)connection;
  settle();
}

void Process::on_peer_gone(Connection& connection) {
  for (Reader& reader : readers_) {
    if (reader.connection != &connection) {
      continue;
    }
    reader.gone = true;
    // What a leaving client wrote before is still delivered to a process that lives on.
    const bool writable = input_.open() || channel_input_.open();
    if (!writable || (reader.owner && !info_.keep)) {
      connection.close();
    }
  }
  settle();
}

void Process::detach(Connection& connection) {
  connection.process = nullptr;
  bool owner_left = false;
  std::erase_if(readers_, [&](const Reader& reader) {
    owner_left = owner_left || (reader.connection == &connection && reader.owner);
    return reader.connection == &connection;
  });
  std::erase(removers_, &connection);
  if (owner_left && !info_.keep) {
    kill_group(SIGKILL);
    forgotten_ = true;
  }
  settle();
  owner_.on_process_settled();
}

void Process::on_frame(Connection& connection, Kind kind, std::string_view payload) {
  active_at_ms_ = monotonic_ms();
  switch (kind) {
    case Kind::kStdin:
      if (!has_input_) {
        connection.send_error({Code::kFailedPrecondition,
                               concat("process ", id(), " was started without standard input"),
                               "stdin_unavailable"});
        return;
      }
      input_.write(payload);
      hold_clients();
      return;
    case Kind::kSync:
      // Frames are taken in order and not while the input is full: what came before is in.
      connection.send(Kind::kSynced);
      return;
    case Kind::kChannelInput:
      channel_input_.write(payload);
      hold_clients();
      return;
    case Kind::kStdinEnd:
      input_.end();
      return;
    case Kind::kInputOnly:
      for (Reader& reader : readers_) {
        reader.gone = reader.gone || reader.connection == &connection;
      }
      settle();
      return;
    case Kind::kSignal: {
      const auto number = decode_number(payload);
      if (!number || *number < 1 || *number > 64) {
        break;
      }
      kill_group(static_cast<int>(*number));
      return;
    }
    case Kind::kResize: {
      const auto size = decode_pty_size(payload);
      if (!size) {
        break;
      }
      winsize window{};
      window.ws_row = static_cast<unsigned short>(size->rows);
      window.ws_col = static_cast<unsigned short>(size->columns);
      if (terminal_) {
        ::ioctl(terminal_.get(), TIOCSWINSZ, &window);
      }
      return;
    }
    default:
      break;
  }
  connection.send_error(
      Error{Code::kInvalidArgument, "unexpected or malformed frame for a process", "malformed"});
}

void Process::hold_clients() {
  const bool hold = input_full();
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    readers_[i].connection->hold_input(hold);
    if (input_full() != hold) {
      return;  // a released client filled it again, and has held everyone by that
    }
  }
}

// --- end -----------------------------------------------------------------------------------

void Process::kill_group(int signal) {
  CHECK(pid_ > 1);  // kill(-1) would be everyone
  if (!info_.running) {
    return;
  }
  pid_t foreground = 0;  // the job an interactive shell is running
  if (terminal_ && ::ioctl(terminal_.get(), TIOCGPGRP, &foreground) == 0 && foreground > 1 &&
      foreground != pid_ && ::kill(-foreground, signal) == 0 &&
      (signal == SIGINT || signal == SIGQUIT || signal == SIGTSTP)) {
    return;  // what a keyboard sends is for the job alone
  }
  // Right after fork the group does not exist yet.
  if (::kill(-pid_, signal) != 0) {
    ::kill(pid_, signal);
  }
}

void Process::on_leader_exit(int wait_status) {
  info_.running = false;
  info_.exit.exited = WIFEXITED(wait_status);
  info_.exit.exit_code =
      info_.exit.exited ? static_cast<std::uint32_t>(WEXITSTATUS(wait_status)) : 0;
  info_.exit.signal = info_.exit.exited ? 0 : static_cast<std::uint32_t>(WTERMSIG(wait_status));
  info_.exit.timed_out = timed_out_ && info_.exit.signal == SIGKILL;
  info_.exit.idle_timed_out = idle_timed_out_ && info_.exit.signal == SIGKILL;
  timeout_at_ms_.reset();
  idle_at_ms_.reset();
  if (forget_after_ms_ > 0) {
    forget_at_ms_ = monotonic_ms() + forget_after_ms_;
  }
  input_.close();
  channel_input_.close();
  begin_drain();
  for (Reader& reader : readers_) {
    if (reader.gone) {
      reader.connection->close();
    }
    reader.connection->hold_input(false);
  }
  owner_.on_deadline_changed();
  settle();
}

void Process::remove(Connection& waiter) {
  removers_.push_back(&waiter);
  waiter.process = this;
  if (!removing_) {
    removing_ = true;
    if (info_.running) {
      remove_kill_at_ms_ = monotonic_ms() + kRemoveGraceMs;
      ask_to_end();
      owner_.on_deadline_changed();
    } else {
      remove_killed_ = true;
    }
  }
  check_removed();
}

void Process::check_removed() {
  if (!removing_ || info_.running) {
    return;
  }
  if (remove_killed_ || (::kill(-pid_, 0) != 0 && errno == ESRCH)) {
    forget();
  }
}

void Process::forget() {
  removing_ = false;
  remove_kill_at_ms_.reset();
  hang_up_at_ms_.reset();
  forget_at_ms_.reset();
  forgotten_ = true;
  for (Connection* waiter : removers_) {
    waiter->send(Kind::kDone);
    waiter->finish();
  }
  owner_.on_deadline_changed();
  owner_.on_process_settled();
}

ProcessInfo Process::info() const {
  ProcessInfo info = info_;
  info.output_bytes = journal_.end_offset();
  info.journal_first_offset = journal_.begin_offset();
  return info;
}

bool Process::evict() {
  if (info_.running || starting_ || !info_.keep || forgotten_ || !readers_.empty() ||
      !removers_.empty()) {
    return false;
  }
  forgotten_ = true;
  return true;
}

bool Process::erasable() const {
  return (forgotten_ || !info_.keep) && readers_.empty() && removers_.empty();
}

}  // namespace atl::guest
