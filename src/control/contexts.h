// Commands in sandboxes: started, listed, waited for, fed and ended.
//
// A context is a process that the guest keeps until it is deleted; control remembers nothing about
// it, so nothing is lost when this process restarts. Its id is the guest's process id
// (ctx-<8 hex>). The guest keeps the newest output of a context (guest::kDefaultJournalBytes); an
// answer that waits for the end captures up to kMaxCaptureBytes per stream. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "control/capture.h"
#include "control/guest_client.h"
#include "control/sandboxes.h"

namespace atl::control {

// Which sandbox of which team.
struct SandboxRef {
  std::string team_id;
  std::string sandbox_id;
};

// Of a context, where something is kept about it.
inline std::string context_key(const SandboxRef& sandbox, std::string_view id) {
  return concat(sandbox.team_id, "/", sandbox.sandbox_id, "/", id);
}

struct ContextRequest {
  std::vector<std::string> command;
  std::string cwd;   // empty: the template's; ~ is the user's home directory
  std::string user;  // empty: the template's
  StringMap env;     // over the sandbox's
  std::optional<guest::PtySize> pty;
  std::optional<std::string> input;  // written to standard input
  bool keep_input_open = false;      // otherwise the input ends after that
  std::uint64_t timeout_ms = 0;
  std::uint64_t idle_timeout_ms = 0;
  bool channel = false;  // descriptor 3 is a socket to us
  std::string id;        // empty: a new one
  bool pty_driven = false;
  std::string label;  // for us to find again in the guest's table
  // So long after its end the guest forgets it; 0: it stays until it is removed.
  std::uint64_t forget_after_ms = 0;
};

struct CapturedOutput {
  std::string standard_output;
  std::string standard_error;
  std::string combined;  // in the order it was written; of a terminal, all of it
  bool truncated = false;
};

struct Context {
  guest::ProcessInfo process;
  std::optional<CapturedOutput> output;
};

// "TERM", "sigterm" or "15" -> 15.
Result<std::uint32_t> parse_signal(std::string_view text);

class Interpreters;

class Contexts {
 public:
  Contexts(io::Reactor& reactor, Sandboxes& sandboxes, const WallClock& clock);
  ~Contexts();

  // Contexts that run code piece by piece.
  Interpreters& interpreters() { return *interpreters_; }

  // Owns what goes on after an answer (feeding input); until cancelled. REQUIRES: before create().
  Task<> run();

  // Starts the command and returns. Its process outlives every connection.
  Task<Context> create(SandboxRef sandbox, ContextRequest request);
  // Starts the command and waits for its end. When cancelled, the command goes on.
  Task<Context> create_and_wait(SandboxRef sandbox, ContextRequest request);
  // Starts the command with a reader from its first byte on: the process waits for a slow one.
  // Input is the caller's to send.
  struct Started {
    Context context;
    std::unique_ptr<ProcessStream> stream;
  };
  Task<Started> create_and_follow(SandboxRef sandbox, ContextRequest request);
  Task<std::vector<Context>> list(SandboxRef sandbox);
  Task<Context> get(SandboxRef sandbox, std::string id);                  // with the output so far
  Task<guest::ProcessInfo> describe(SandboxRef sandbox, std::string id);  // without the output
  Task<> remove(SandboxRef sandbox, std::string id);  // TERM, five seconds, KILL
  Task<> signal(SandboxRef sandbox, std::string id, std::uint32_t number);
  Task<> input(SandboxRef sandbox, std::string id, std::string bytes, bool end);
  Task<> resize(SandboxRef sandbox, std::string id, guest::PtySize size);
  // The output from an offset on, then live, then the exit.
  Task<std::unique_ptr<ProcessStream>> follow(SandboxRef sandbox, std::string id,
                                              std::uint64_t from_offset);
  // From now on, and what it is: one round trip, which also takes bytes to its channel.
  Task<DescribedStream> follow_from_now(SandboxRef sandbox, std::string id,
                                        std::string channel_bytes = {});
  // Ends the process and starts it again under the same id. What the guest does not keep (its own
  // environment, time limits, terminal size) is remembered by this process only.
  Task<Context> restart(SandboxRef sandbox, std::string id);
  // kNotFound: the team has no such sandbox.
  Result<> check_sandbox(const SandboxRef& sandbox) const;
  // For file operations.
  Task<GuestClient> guest(SandboxRef sandbox);
  // User and directory when nobody says otherwise.
  const TemplateDefaults& defaults(const SandboxRef& sandbox) const;

 private:
  Task<Started> start(SandboxRef sandbox, const ContextRequest& request);
  friend class Interpreters;
  Task<Started> start_again(SandboxRef sandbox, std::string id);
  void remember(const SandboxRef& sandbox, const std::string& id, const ContextRequest& request);
  void forget(const SandboxRef& sandbox, const std::string& id);
  std::optional<ContextRequest> remembered(const SandboxRef& sandbox, const std::string& id) const;
  void forget_lost_sandboxes();
  Task<guest::ProcessInfo> find_process(GuestClient client, std::string id);
  Task<guest::ProcessInfo> find_running(GuestClient client, std::string id);
  Task<CapturedOutput> collect_until(ProcessStream& stream, std::uint64_t end_offset,
                                     guest::ProcessInfo& process);
  Task<> feed_in_background(std::unique_ptr<ProcessStream> stream, std::string bytes, bool end);

  io::Reactor& reactor_;
  Sandboxes& sandboxes_;
  const WallClock& clock_;
  CaptureBudget budget_;
  Scope* background_ = nullptr;
  struct Remembered {
    SandboxRef sandbox;
    ContextRequest request;
    std::size_t bytes = 0;
  };
  std::map<std::string, Remembered, std::less<>> remembered_;  // by context_key()
  std::size_t remembered_bytes_ = 0;
  std::size_t tidy_at_bytes_ = 0;
  std::unique_ptr<Interpreters> interpreters_;
};

}  // namespace atl::control
