// One process of the table: its pipes, its journal, and who reads it.
//
// Output flows pipe -> journal -> readers. Each connected reader has a cursor in the journal; the
// pipes are read only while the slowest cursor is within kReaderWindowBytes of the end, which is
// the whole of the back-pressure. Before its first reader a kept process that has filled its
// journal waits a while in the same way, so that starting and then reading loses nothing. A process
// ends for its readers when its leader was reaped and what the leader could have written was read;
// a background child that still holds the pipe cannot delay that, and the pipe is given to the
// owner so that the child does not get SIGPIPE.
//
// The channel (descriptor 3 of the child) is one more source, read only after what the pipes hold
// at that moment, so what a program printed comes before what it then says over the channel.
//
// The group is signalled only while its id cannot have been reused: before the leader is reaped,
// or while a removal watches the group's last members.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guest/connection.h"
#include "guest/input.h"
#include "guest/journal.h"
#include "guest/loop.h"
#include "guest/spawn.h"
#include "guest/wire.h"

namespace atl::guest {

std::int64_t monotonic_ms();

class Process {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_deadline_changed() = 0;
    // The process may have become erasable().
    virtual void on_process_settled() = 0;
    // Reads and drops what a background child still writes.
    virtual void adopt_pipe(Fd pipe) = 0;
  };

  Process(Owner& owner, Loop& loop, JournalBudget& budget, std::uint64_t serial,
          const SpawnRequest& request, pid_t pid);
  Result<> start(Spawned spawned, const SpawnRequest& request);

  // The connection that spawned a process owns it: without `keep`, its end is the process's end.
  enum class Role : std::uint8_t { kOwner, kReader };
  void attach(Connection& connection, std::uint64_t from_offset, Role role);
  void on_frame(Connection& connection, Kind kind, std::string_view payload);
  void on_drained(Connection& connection);
  void on_peer_gone(Connection& connection);
  // The connection is about to be destroyed.
  void detach(Connection& connection);

  void kill_group(int signal);
  void remove(Connection& waiter);
  void on_leader_exit(int wait_status);
  // Some child of the agent ended: a removal may be complete.
  void ask_to_end();
  void check_removed();
  void on_deadline(std::int64_t now_ms);

  std::optional<std::int64_t> next_deadline_ms() const;
  ProcessInfo info() const;
  std::uint64_t output_bytes() const { return journal_.end_offset(); }
  // Of the pipes, for whoever looks for their other ends; 0: there is none.
  struct OutputInodes {
    std::uint64_t output = 0;
    std::uint64_t error_output = 0;
  };
  OutputInodes output_inodes() const;
  const std::string& id() const { return info_.process_id; }
  pid_t pid() const { return pid_; }
  std::uint64_t serial() const { return serial_; }
  bool running() const { return info_.running; }
  // Not to be found by its id any more; only its readers still see it.
  bool forgotten() const { return forgotten_; }
  bool erasable() const;
  // Makes room for a new process: a finished one that nobody reads is forgotten. False: still used.
  bool evict();

 private:
  static constexpr std::size_t kChannelSource = 2;

  struct Source {
    explicit Source(Loop& loop) : watch(loop) {}
    Fd fd;
    Watch watch;
    Stream stream = Stream::kStdout;
    // After the leader's exit: how much of what is in the pipe is still to be read.
    std::optional<std::size_t> drain_bytes;
  };
  struct Reader {
    Connection* connection = nullptr;
    Journal::Cursor cursor;
    bool owner = false;
    bool contiguous = false;  // has missed nothing that nobody else had read
    bool started_sent = false;
    bool gone = false;  // only its input is still wanted
  };

  Result<> watch_source(Source& source, Fd fd, Stream stream);
  void on_status();
  void on_start_failed(const Error& error);
  void on_readable(Source& source, std::uint32_t events);
  // What stdout and stderr hold now goes into the journal before what is read next.
  void read_before_channel();
  void read_once(Source& source, std::size_t max_bytes);
  enum class SourceEnd : std::uint8_t { kEndOfFile, kDrained };
  void end_source(Source& source, SourceEnd end);
  void begin_drain();
  void pump(Reader& reader);
  bool queue_for(Reader& reader);
  void settle();
  // Unread output fills the journal and its first reader may still come.
  bool waits_for_reader();
  std::uint64_t unread_from() const;
  bool finished() const;
  bool input_full() const { return input_.full() || channel_input_.full(); }
  void hold_clients();
  void check_idle(std::int64_t now_ms);
  void forget();

  Owner& owner_;
  const std::uint64_t serial_;
  const pid_t pid_;
  ProcessInfo info_;
  Journal journal_;
  std::vector<Reader> readers_;
  std::vector<Connection*> removers_;

  Fd status_fd_;
  Watch status_watch_;
  std::string status_;
  bool starting_ = true;
  bool has_input_ = false;
  Input input_;
  std::array<Source, 3> sources_;  // kChannelSource is the last
  Input channel_input_;
  Fd terminal_;  // a second handle of the terminal, for its window size and foreground group

  std::optional<std::int64_t> timeout_at_ms_;
  std::optional<std::int64_t> remove_kill_at_ms_;
  const std::int64_t forget_after_ms_;
  std::optional<std::int64_t> forget_at_ms_;
  std::optional<std::int64_t> hang_up_at_ms_;  // again, while a terminal is being removed
  std::uint64_t read_offset_ = 0;              // some reader has had everything before it
  bool unread_matters_;                        // its first reader may still come
  std::optional<std::int64_t> reader_grace_at_ms_;
  // The idle deadline is checked when it comes and then moved on by what happened meanwhile, so
  // that output costs no timer call.
  const std::int64_t idle_timeout_ms_;
  std::optional<std::int64_t> idle_at_ms_;
  std::int64_t active_at_ms_;
  bool reading_ = true;  // there is room for output
  bool timed_out_ = false;
  bool idle_timed_out_ = false;
  bool removing_ = false;
  bool remove_killed_ = false;
  bool forgotten_ = false;
};

}  // namespace atl::guest
