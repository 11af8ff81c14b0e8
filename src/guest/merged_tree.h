// Directories stacked as overlayfs stacks layers, read without mounting them.
//
// A stack is the same directory in every tree that has a part in it, topmost first. A name is what
// the topmost tree that knows it says: a whiteout (a device 0:0, or a marked empty file) hides what
// is below, a directory joins the directories below it unless it is opaque, and anything else
// stands alone. Two stacks that end in the same trees differ only in names that the trees above
// mention: that is what makes a comparison as cheap as the change.
//
// Trees are hostile, so everything is addressed as (descriptor, name) and no link is followed. What
// overlayfs notes for itself (user.overlay.*) is never shown as an attribute; names that it has
// escaped are shown as they were.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "guest/wire.h"

namespace atl::guest {

// One directory of one tree.
struct Place {
  std::size_t tree = 0;
  Fd directory;
  bool has_marks = false;  // whiteouts in it may be marked empty files
};
using Stack = std::vector<std::shared_ptr<Place>>;  // shared by the two sides of a comparison

// What a name is in a stack.
struct Node {
  struct stat status{};
  std::shared_ptr<Place> place;  // where it is named; the topmost, of a directory
  Stack below;                   // of a directory
  bool is_directory() const { return S_ISDIR(status.st_mode); }
};

// Opens each directory of a name once, whichever side asks first.
class NameLookup {
 public:
  explicit NameLookup(const std::string& name, const std::string& path)
      : name_(name), path_(path) {}
  // Nothing: there is no such name.
  Result<std::optional<Node>> find(const Stack& stack);

 private:
  Result<std::shared_ptr<Place>> open(const Place& parent);

  const std::string& name_;
  const std::string& path_;  // for errors
  std::vector<std::pair<const Place*, std::shared_ptr<Place>>> opened_;
};

// The root of a tree.
Result<std::shared_ptr<Place>> open_root(const std::string& directory, std::size_t tree);
// What is below it in a stack does not show.
bool hides_below(const Place& place);
// How many trees at the end of both stacks are the same.
std::size_t common_trees(const Stack& one, const Stack& other);
// The names that the first `count` places of the stack mention, appended.
Result<> append_names(const Stack& stack, std::size_t count, const std::string& path,
                      std::vector<std::string>& names, std::size_t& bytes);

// The extended attributes of an open file that are its own, by name.
Result<std::vector<Attribute>> read_attributes(int fd, const std::string& path);

}  // namespace atl::guest
