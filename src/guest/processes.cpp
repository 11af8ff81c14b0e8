#include "guest/processes.h"

#include <malloc.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/strings.h"
#include "guest/limits.h"
#include "guest/spawn.h"

namespace atl::guest {
namespace {

// A journal of more than this is worth giving back to the kernel at once.
constexpr std::uint64_t kTrimBytes = 4 * kJournalChunkBytes;

}  // namespace

Processes::Processes(Loop& loop, const rlimit& file_limit)
    : loop_(loop),
      file_limit_(file_limit),
      budget_{.max_bytes = kMaxTotalJournalBytes},
      timer_watch_(loop) {}

Processes::~Processes() = default;

Result<> Processes::start() {
  timer_ = Fd{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
  if (!timer_) {
    return fail_errno("creating the timer");
  }
  return timer_watch_.start(timer_.get(), EPOLLIN, [this](std::uint32_t) { on_timer(); });
}

Result<Process*> Processes::find(std::string_view id) {
  for (const auto& process : processes_) {
    if (!process->forgotten() && process->id() == id) {
      return process.get();
    }
  }
  return fail(Code::kNotFound, concat("there is no process ", id), "process_not_found");
}

// --- requests ------------------------------------------------------------------------------

void Processes::spawn(Connection& connection, std::string_view payload) {
  if (auto spawned = try_spawn(connection, payload); !spawned) {
    connection.send_error(spawned.error());
  }
}

Result<> Processes::try_spawn(Connection& connection, std::string_view payload) {
  TRY(auto request, decode_spawn(payload));
  TRY_DO(make_room(request.process_id));
  TRY(auto spawned, guest::spawn(request, file_limit_));
  return add(connection, std::move(spawned), request);
}

void Processes::revive(Connection& connection, std::string_view payload) {
  if (auto revived = try_revive(connection, payload); !revived) {
    connection.send_error(revived.error());
  }
}

Result<> Processes::try_revive(Connection& connection, std::string_view payload) {
  TRY(const auto request, decode_revive(payload));
  TRY(auto image, decode_warm_image(request.description));
  TRY_DO(make_room(request.spawn.process_id));
  TRY(auto revival, Revival::start(request.spawn, std::move(image), connection.take_descriptor()));
  revived_any_ = true;
  revivals_.push_back(std::move(revival));
  return add(connection, revivals_.back().take_spawned(), request.spawn);
}

void Processes::end_revivals() {
  for (const Revival& revival : revivals_) {
    ::kill(revival.pid(), SIGKILL);
  }
}

Result<CaptureOrder> Processes::order_capture(std::string_view payload) {
  TRY(const auto request, decode_capture(payload));
  TRY(const auto* process, find(request.process_id));
  if (!process->running()) {
    return fail(Code::kFailedPrecondition,
                concat("process ", request.process_id, " has already ended"), "process_ended");
  }
  const auto inodes = process->output_inodes();
  return CaptureOrder{.source = {.pid = static_cast<pid_t>(request.pid),
                                 .channel = request.channel,
                                 .output_inode = inodes.output,
                                 .error_inode = inodes.error_output,
                                 .max_bytes = request.max_bytes,
                                 .own_memory = request.own_memory},
                      .user = process->info().user};
}

Result<> Processes::make_room(const std::string& process_id) {
  if (find(process_id)) {
    return fail(Code::kAlreadyExists, concat("process ", process_id, " already exists"),
                "process_exists");
  }
  if (processes_.size() >= kMaxProcesses && !evict_oldest()) {
    return fail(Code::kResourceExhausted,
                concat("the sandbox already runs ", kMaxProcesses, " processes; end some first"),
                "resource_exhausted");
  }
  return {};
}

Result<> Processes::add(Connection& connection, Spawned spawned, const SpawnRequest& request) {
  const pid_t pid = spawned.pid;
  auto process = std::make_unique<Process>(static_cast<Process::Owner&>(*this), loop_, budget_,
                                           next_serial_++, request, pid);
  if (auto started = process->start(std::move(spawned), request); !started) {
    ::kill(pid, SIGKILL);  // its descriptors are closed by now; the reaper takes the rest
    return started;
  }
  processes_.push_back(std::move(process));
  processes_.back()->attach(connection, 0, Process::Role::kOwner);
  on_deadline_changed();
  return {};
}

// A client that never removes its finished processes must not lock itself out.
bool Processes::evict_oldest() {
  const auto oldest = std::find_if(processes_.begin(), processes_.end(),
                                   [](const auto& process) { return process->evict(); });
  if (oldest == processes_.end()) {
    return false;
  }
  processes_.erase(oldest);
  return true;
}

void Processes::attach(Connection& connection, std::string_view payload) {
  const auto request = decode_attach(payload);
  if (!request) {
    connection.send_error(request.error());
    return;
  }
  const auto process = find(request->process_id);
  if (!process) {
    connection.send_error(process.error());
    return;
  }
  if (request->describe) {
    connection.send(Kind::kProcess, encode((*process)->info()));
  }
  (*process)->attach(connection, request->from_offset, Process::Role::kReader);
}

void Processes::list(Connection& connection) {
  connection.listing = true;
  for (const auto& process : processes_) {
    if (!connection.wants_output()) {
      return;
    }
    if (process->serial() > connection.listed_serial && !process->forgotten()) {
      connection.listed_serial = process->serial();
      connection.send(Kind::kProcess, encode(process->info()));
    }
  }
  connection.send(Kind::kEnd);
  connection.finish();
}

void Processes::get(Connection& connection, std::string_view payload) {
  const auto id = decode_id(payload);
  if (!id) {
    connection.send_error(id.error());
    return;
  }
  const auto process = find(*id);
  if (!process) {
    connection.send_error(process.error());
    return;
  }
  connection.send(Kind::kProcess, encode((*process)->info()));
  connection.finish();
}

void Processes::signal(Connection& connection, std::string_view payload) {
  const auto request = decode_signal_process(payload);
  if (!request) {
    connection.send_error(request.error());
    return;
  }
  const auto process = find(request->process_id);
  if (!process) {
    connection.send_error(process.error());
    return;
  }
  if (!(*process)->running()) {
    connection.send_error(Error{Code::kFailedPrecondition,
                                concat("process ", request->process_id, " has already ended"),
                                "process_ended"});
    return;
  }
  (*process)->kill_group(static_cast<int>(request->signal));
  connection.send(Kind::kDone);
  connection.finish();
}

void Processes::remove(Connection& connection, std::string_view payload) {
  const auto id = decode_id(payload);
  if (!id) {
    connection.send_error(id.error());
    return;
  }
  const auto process = find(*id);
  if (!process) {
    connection.send_error(process.error());
    return;
  }
  (*process)->remove(connection);
}

// --- ends ----------------------------------------------------------------------------------

void Processes::on_stopped(pid_t pid, int stop) {
  const auto found = std::ranges::find(revivals_, pid, &Revival::pid);
  if (found == revivals_.end()) {
    // A child that asked for it itself. Nobody here wants to trace it.
    const int signal = stop & 0x7f;
    ::ptrace(PTRACE_DETACH, pid, nullptr, signal == SIGTRAP ? 0 : signal);
  } else if (found->on_stop(stop)) {
    revivals_.erase(found);
  }
}

bool Processes::on_reaped(pid_t pid, int wait_status) {
  std::erase_if(revivals_, [pid](const Revival& revival) { return revival.pid() == pid; });
  for (const auto& process : processes_) {
    if (process->pid() == pid && process->running()) {
      process->on_leader_exit(wait_status);
      return true;
    }
  }
  return false;
}

void Processes::check_removals() {
  for (const auto& process : processes_) {
    process->check_removed();
  }
}

void Processes::sweep() {
  if (!dirty_) {
    return;
  }
  dirty_ = false;
  const std::size_t before = processes_.size();
  bool freed_much = false;
  std::erase_if(processes_, [&freed_much](const auto& process) {
    freed_much = freed_much || (process->erasable() && process->output_bytes() > kTrimBytes);
    return process->erasable();
  });
  if (freed_much) {
    ::malloc_trim(0);  // chunks come from the heap, for speed, and leave holes in it
  }
  std::erase_if(orphans_, [](const OrphanPipe& orphan) { return orphan.ended; });
  if (processes_.size() != before) {
    on_deadline_changed();
  }
}

std::vector<Leader> Processes::leaders() const {
  std::vector<Leader> leaders;
  for (const auto& process : processes_) {
    leaders.push_back({process->pid(), process->id()});
  }
  return leaders;
}

std::size_t Processes::count() const {
  return static_cast<std::size_t>(
      std::count_if(processes_.begin(), processes_.end(),
                    [](const auto& process) { return !process->forgotten(); }));
}

void Processes::adopt_pipe(Fd pipe) {
  if (orphans_.size() >= kMaxOrphanPipes) {
    return;
  }
  OrphanPipe& orphan = orphans_.emplace_back(loop_, std::move(pipe));
  const auto drop = [this, &orphan](std::uint32_t) {
    std::array<char, 16 * 1024> buffer;
    const ssize_t got = ::read(orphan.fd.get(), buffer.data(), buffer.size());
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      orphan.ended = true;
      orphan.watch.pause();
      dirty_ = true;
    }
  };
  if (!orphan.watch.start(orphan.fd.get(), EPOLLIN, drop)) {
    orphans_.pop_back();
  }
}

// --- time ----------------------------------------------------------------------------------

void Processes::on_deadline_changed() {
  std::optional<std::int64_t> next;
  for (const auto& process : processes_) {
    const auto deadline = process->next_deadline_ms();
    if (deadline && (!next || *deadline < *next)) {
      next = deadline;
    }
  }
  // Zero disarms it.
  const std::int64_t at_ms = next ? std::max<std::int64_t>(*next, 1) : 0;
  if (at_ms == std::exchange(armed_at_ms_, at_ms)) {
    return;
  }
  itimerspec setting{};
  setting.it_value.tv_sec = at_ms / 1000;
  setting.it_value.tv_nsec = at_ms % 1000 * 1000000;
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &setting, nullptr);
}

void Processes::on_timer() {
  std::uint64_t expirations = 0;
  if (::read(timer_.get(), &expirations, sizeof expirations) < 0) {
    return;
  }
  armed_at_ms_ = 0;
  const std::int64_t now_ms = monotonic_ms();
  for (const auto& process : processes_) {
    process->on_deadline(now_ms);
  }
  on_deadline_changed();
}

}  // namespace atl::guest
