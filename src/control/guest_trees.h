// Whole trees into a sandbox, and from one sandbox into another.
//
// What is written comes from a TreeSource, read in batches on a thread of the pool because it
// blocks. What is copied passes through frame by frame: the sending guest is as hostile as ever,
// so every entry is decoded, checked and encoded again, and the receiving guest checks once more.
// Loop thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

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
