// Host ids for sandboxes: no two live sandboxes on this host share one.
//
// A sandbox gets a slot of 65536 host ids. Several Atoll installations may run on one host, so an
// installation first claims blocks of 256 slots by files in a directory they all share:
//
//   /run/atoll/uids/<block>     contains the data directory of the claimer, then a newline
//
// All claiming happens under a lock on that directory. A block may be
// claimed only when no process on the host runs with an id of it (sandboxes outlive the processes
// that made them), and taken over from another installation only when that one's data directory
// is not locked either. A slot that was given back
// goes to the end of the queue: a number is not seen again soon after its last owner.
// Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "node/limits.h"

namespace atl::node {

// Which blocks have a process on this host; a test gives its own.
using UsedBlocks = std::function<Result<std::set<std::uint32_t>>()>;
Result<std::set<std::uint32_t>> scan_used_blocks();

class UidRanges {
 public:
  struct Options {
    std::string claims_dir;  // exists
    std::string data_dir;    // absolute; holds the file "lock" that a living installation locks
    UsedBlocks used_blocks = scan_used_blocks;
  };
  // Takes back the blocks this data directory has claimed earlier.
  static Result<std::unique_ptr<UidRanges>> open(Options options);

  Result<std::uint32_t> take();               // the host id of the sandbox's uid 0
  Result<> take_exactly(std::uint32_t base);  // of a sandbox that still runs
  void give_back(std::uint32_t base);
  // Releases the claims of all blocks but those with a slot in use: they stay ours for the next
  // start.
  Result<> close();

 private:
  explicit UidRanges(Options options) : options_(std::move(options)) {}
  Result<> claim_own_blocks();
  Result<> claim_next_block();
  // The three below REQUIRE the directory's lock, so that looking and writing are one step.
  Result<std::string> read_owner(std::uint32_t block) const;  // empty: nobody
  Result<bool> is_abandoned(std::uint32_t block, const std::string& owner,
                            std::optional<std::set<std::uint32_t>>& used) const;
  Result<> write_claim(std::uint32_t block);
  std::string claim_path(std::uint32_t block) const;
  void add_block(std::uint32_t block);

  const Options options_;
  std::mutex mutex_;
  std::set<std::uint32_t> blocks_;
  std::deque<std::uint32_t> free_;  // bases, longest unused first
  std::set<std::uint32_t> taken_;
};

}  // namespace atl::node
