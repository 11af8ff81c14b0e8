// Python interpreters that have started already, for new sandboxes to go on with.
//
// An interpreter with IPython takes most of a second to start. So one is started once for each kind
// (layers, user, directory), in a cell of our own that has the layers and nothing else; it copies
// itself, the cell ends, and what stays is a sealed image of some 40 MB. A sandbox's first
// interpreter is made of it in some tens of milliseconds (docs/warm-forks.md says how), with memory
// of its own, and gets the sandbox's environment then. No sandbox has had a hand in an image,
// and none holds anything of a tenant's: templates of a team are seen by that team alone.
//
// The first who asks for a kind gets none and starts anew; the image is made meanwhile. A sandbox
// whose programs are not those of its layers any more is refused by its own agent and starts anew
// too. Loop thread only.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/interpreter_copy.h"
#include "control/layer_factory.h"

namespace atl::control {

struct PreloadedKind {
  std::vector<std::string> layers;  // topmost first
  std::string user;
  std::string cwd;
  auto operator<=>(const PreloadedKind&) const = default;
};

class PreloadedInterpreters {
 public:
  using Image = std::shared_ptr<const CopiedInterpreter>;

  explicit PreloadedInterpreters(LayerFactory::Parts parts) : factory_(parts) {}
  PreloadedInterpreters(const PreloadedInterpreters&) = delete;
  PreloadedInterpreters& operator=(const PreloadedInterpreters&) = delete;

  // Null: there is none yet, or one with this environment would have to start with it.
  Image find(const PreloadedKind& kind, const StringMap& env);
  // Makes those that were asked for, one after another, until cancelled.
  Task<> run();

 private:
  struct Entry {
    Image image;  // null: being made, or it cannot be made
    std::uint64_t last_used = 0;
  };

  Task<> make(PreloadedKind kind);
  static Task<> start_and_copy(const BuildCell& cell, const PreloadedKind& kind, Image& image);
  void make_room();

  LayerFactory factory_;
  std::map<PreloadedKind, Entry> entries_;
  std::deque<PreloadedKind> wanted_;
  Event asked_;
  std::uint64_t uses_ = 0;
};

}  // namespace atl::control
