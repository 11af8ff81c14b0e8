// Visiting a tree from the top, without changing it: for downloads and searches.
//
// Everything is addressed as (descriptor, name) and no symlink is followed, so what is visited is
// below the root also while somebody rearranges it. Kernel filesystems (/proc, /sys and the like)
// that are mounted below the root are not entered: their files have no size and some no end. Names
// come in the order the filesystem has them.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>

#include "base/error.h"

namespace atl::guest {

struct Visit {
  int directory = -1;  // where `name` is
  std::string name;
  std::string path;  // relative to the root of the visit
  struct stat status{};
};

enum class Next : std::uint8_t { kContinue, kSkip, kStop };  // kSkip: do not enter this directory

class Visitor {
 public:
  virtual ~Visitor() = default;
  // Directories come before what is in them.
  virtual Result<Next> on_entry(const Visit& visit) = 0;
  // An entry that cannot be entered or named. A failure ends the visit.
  virtual Result<> on_obstacle(const std::string& path, Error error) = 0;
};

// `path` is absolute; a symlink there is followed. A path that is not a directory is one entry.
// Entries that disappear meanwhile are left out.
Result<> visit_tree(const std::string& path, Visitor& visitor);

// /proc, /sys and the like.
bool is_kernel_filesystem(int fd);

}  // namespace atl::guest
