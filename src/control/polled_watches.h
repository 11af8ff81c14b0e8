// Watches of files for clients that ask now and then what has happened, instead of listening.
//
// What happens is kept until it is asked for, up to a bound; beyond it the watch says that
// something was missed. A watch ends when it is removed, when its sandbox does not answer any more,
// or when nobody has asked for kMaxPollPause. Memory of this process only. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/scope.h"
#include "control/contexts.h"

namespace atl::control {

// At once: each is a question to the guest.
inline constexpr std::size_t kMaxDescribedChanges = 256;

class PolledWatches {
 public:
  struct About {
    SandboxRef sandbox;
    std::string root;  // as the guest has it
    std::string user;
    bool describe = false;  // the client wants to know what became of each file
  };
  struct Changes {
    About about;
    std::vector<guest::FileEvent> events;
  };

  PolledWatches() = default;
  ~PolledWatches();
  PolledWatches(const PolledWatches&) = delete;
  PolledWatches& operator=(const PolledWatches&) = delete;

  // Owns the watches; until cancelled. REQUIRES: before add().
  Task<> run();
  // The id to ask with. kResourceExhausted when there are too many.
  Result<std::string> add(About about, std::unique_ptr<FileWatch> watch);
  // What has happened since the last time; of a watch that describes files, as much as can be
  // described at once, the rest the next time. kNotFound: there is no such watch of this sandbox.
  // kDataLoss: some of it was missed, and the watch is over.
  Result<Changes> take(const SandboxRef& sandbox, const std::string& id);
  Result<> remove(const SandboxRef& sandbox, const std::string& id);

 private:
  struct Entry;
  using EntryPointer = std::shared_ptr<Entry>;  // shared by the table and the task that listens

  Task<> listen(EntryPointer entry);
  Result<EntryPointer> find(const SandboxRef& sandbox, const std::string& id);

  Scope* scope_ = nullptr;
  std::map<std::string, EntryPointer, std::less<>> entries_;
};

}  // namespace atl::control
