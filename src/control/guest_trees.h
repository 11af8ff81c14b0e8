// Whole trees into a sandbox, and from one sandbox into another.
//
// What is written comes from a TreeSource, read in batches on a thread of the pool because it
// blocks. What is copied passes through frame by frame: the sending guest is as hostile as ever,
// so every entry is decoded, checked and encoded again, and the receiving guest checks once more.
// Loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/guest_channel.h"
#include "io/offload.h"
#include "oci/tree.h"

namespace atl::control {

// What is changed on the way.
struct TreeChanges {
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  std::optional<std::uint32_t> mode;  // of files and directories
};

struct TreeTarget {
  std::string guest_socket;
  std::string path;  // absolute
  TreeChanges changes;
  std::string user = {};  // whose rights count; empty: root
};

// A tree on its way into a guest.
class TreeWriter {
 public:
  explicit TreeWriter(std::unique_ptr<GuestChannel> channel) : channel_(std::move(channel)) {}
  static Task<std::unique_ptr<TreeWriter>> open(io::Reactor& reactor, const TreeTarget& target);

  // An entry, or bytes of the file at hand. Fails with what the guest says, when it says it.
  Task<> send(guest::Kind kind, std::string_view bytes);
  Task<guest::TreeDone> finish();
  // Nothing more comes, though something is missing. Fails always; when it returns, the guest has
  // written what came before.
  Task<> abandon();

 private:
  std::unique_ptr<GuestChannel> channel_;
};

// A source as frames for a TreeWriter, a batch at a time. Blocks: for a thread of a pool.
class TreeBatches {
 public:
  using Frames = std::vector<std::pair<guest::Kind, std::string>>;
  TreeBatches(oci::TreeSource& source, const TreeChanges& changes)
      : source_(source), changes_(changes) {}

  // `pause` is asked after each entry and each piece whether the batch shall end early, perhaps
  // without a frame: entries of type kSkipped make none. An error names the entry, and comes after
  // all frames before it.
  Result<Frames> next(const std::function<bool()>& pause = {});
  bool ended() const { return ended_; }  // nothing comes after the last batch

 private:
  Result<> add_frame(Frames& frames);

  oci::TreeSource& source_;
  const TreeChanges& changes_;
  std::string path_;  // of the entry at hand
  std::uint64_t left_ = 0;
  bool ended_ = false;
  std::optional<Error> failure_;
};

Task<guest::TreeDone> write_tree(io::Reactor& reactor, io::OffloadPool& pool, TreeTarget target,
                                 oci::TreeSource& source);

struct TreeCopy {
  std::string guest_socket;  // to read from
  std::string path;          // a directory: its contents; a file: that
  std::string rename;        // not empty: the one file gets this name
};
Task<guest::TreeDone> copy_tree(io::Reactor& reactor, TreeCopy from, TreeTarget target);

}  // namespace atl::control
