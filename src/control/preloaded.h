// Python interpreters that have started already, for new sandboxes to go on with.
//
// An interpreter with IPython and pandas takes seconds to start. So one is started once for each
// kind (layers, user, modules, what the template sets in its environment), in a cell of our own
// that has the layers and nothing else; it imports the modules of the template and copies itself,
// the cell ends, and what stays is a sealed image. A sandbox's interpreter is made of it in about
// two milliseconds (docs/warm-forks.md says how), shares the memory of the image until it writes,
// and gets the sandbox's directory and environment then. No sandbox has had a hand in an image, and
// none holds anything of a tenant's: templates of a team are seen by that team alone.
//
// The first who asks for a kind gets none and starts anew; the image is made meanwhile. One is made
// before anybody asks when sandboxes of its template are kept ready, or when the first is claimed
// of a template that names modules. A sandbox whose programs are not those of its layers any more
// is refused by its own agent and starts anew too. Images go when no template is of their kind,
// when there are too many, and when the memory of the host is short; their memory counts until the
// sandboxes that got them are gone, and no team has more than half of what there is for it. Loop
// thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/interpreter_copy.h"
#include "control/layer_factory.h"
#include "control/memory_pressure.h"
#include "control/preloaded_ledger.h"
#include "control/templates.h"

namespace atl::control {

struct PreloadedKind {
  std::vector<std::string> layers;  // topmost first
  std::string user;
  StringMap env;                     // of the template, as far as it matters when one starts
  std::vector<std::string> modules;  // imported
  auto operator<=>(const PreloadedKind&) const = default;
};

// What sandboxes of a template are of when nobody names another user.
PreloadedKind preloaded_kind(const std::vector<std::string>& layers,
                             const TemplateDefaults& defaults);

struct PreloadFailure {
  std::string module;
  std::string error;
};

// How it stands with one kind.
struct PreloadReport {
  enum class State : std::uint8_t {
    kNone,    // nobody wanted it yet
    kMaking,  // or it waits for its turn
    kReady,
    kFailed,  // there is no image; why is in `reason`
  };
  State state = State::kNone;
  std::string reason;
  std::uint64_t memory_bytes = 0;
  std::vector<PreloadFailure> failures;  // modules that could not be imported
};

class PreloadedInterpreters {
 public:
  using Image = std::shared_ptr<const CopiedInterpreter>;

  // Told by the templates which are wanted, as long as it lives.
  PreloadedInterpreters(LayerFactory::Parts parts,
                        std::function<bool()> memory_is_short = host_memory_is_short);
  ~PreloadedInterpreters();
  PreloadedInterpreters(const PreloadedInterpreters&) = delete;
  PreloadedInterpreters& operator=(const PreloadedInterpreters&) = delete;

  // For this sandbox. Null: there is none yet, or one with this environment would have to start
  // with it.
  Image find(const PreloadedKind& kind, const StringMap& env, const std::string& sandbox_id);
  // It is made soon, if it is not there.
  void want(const PreloadedKind& kind);
  PreloadReport report(const PreloadedKind& kind) const;
  // Makes those that were asked for, one after another, until cancelled: those of the platform
  // first, then of each team in turn.
  Task<> run();

 private:
  struct Entry {
    Image image;  // null: being made, or it cannot be made
    PreloadReport report;
    std::uint64_t last_used = 0;
    std::string team;         // whose template; empty: the platform's
    std::uint64_t bytes = 0;  // that it took when it was made last
    std::size_t attempts = 0;
  };
  using Entries = std::map<PreloadedKind, Entry>;

  Templates& templates() { return sandboxes_.changeable_templates(); }
  void want_for(const Template& value, bool used);
  void on_templates_changed();
  std::optional<std::string> team_of(const PreloadedKind& kind) const;
  Task<> wait_until(Instant next);
  Task<> make(PreloadedKind kind, std::string team);
  void try_again(const PreloadedKind& kind, Entry& entry, const Error& error);
  void keep(const PreloadedKind& kind, Entry& entry, Entry made);
  static Task<> start_and_copy(const BuildCell& cell, const PreloadedKind& kind, Entry& entry);
  bool has_images() const;
  // Of those that may go, the one that was used longest ago goes.
  bool drop_one(const std::function<bool(const PreloadedKind&, const Entry&)>& may_go);
  // What nobody uses goes until there is room for so much.
  bool makes_room(const PreloadedKind& kind, const Entry& entry, std::uint64_t bytes);

  Sandboxes& sandboxes_;
  LayerFactory factory_;
  std::function<bool()> memory_is_short_;
  Entries entries_;
  PreloadQueue<PreloadedKind> wanted_;
  PreloadLedger ledger_;
  Event asked_;
  std::uint64_t uses_ = 0;
};

}  // namespace atl::control
