// The templates a sandbox can be made from: the node's builtin ones, and those that people made.
//
// All are held in memory and written through to the store. A builtin that the node has not made yet
// is listed too (`absent`); it is made at its first use. What a template means for its sandboxes
// (environment, user, directory, resources) is computed once, when it changes. Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "control/network_document.h"
#include "control/resources.h"
#include "control/store_access.h"
#include "control/template_start.h"
#include "node/protocol.h"

namespace atl::control {

using Template = store::Template;
using TemplateState = store::TemplateState;

inline constexpr std::string_view kDefaultTemplate = "default";

// How many cells are kept ready for claims.
struct PoolBounds {
  std::size_t min_idle = 0;
  std::size_t max_idle = 0;
};

// What processes of its sandboxes get when nobody says otherwise.
struct TemplateDefaults {
  store::StringMap env;
  std::string user;
  std::string cwd;
  ResourceRequest resources;
  bool ephemeral_tmp = false;
  std::set<std::string, std::less<>> read_only_mounts;  // mount points it offers only to read
  TemplateStart start;
  std::optional<PoolBounds> pool;    // nothing: the platform decides
  std::vector<std::string> preload;  // modules its Python interpreters have imported already
};

// What a template says about the network of its sandboxes.
struct TemplateNetwork {
  NetworkRequestPtr network;  // null: nothing
  std::string failure;        // why nobody knows: the network is to be closed
};

// How often sandboxes were made of it since this process began, and when the last time.
struct TemplateUse {
  std::uint64_t count = 0;
  UnixMillis last_at = 0;
};

class Templates {
 public:
  // Takes over what the node has now, and remembers it in the store where it changed. The first
  // time it also reads what people made; one that was being made then has failed.
  Task<> refresh(StoreAccess store, std::vector<node::TemplateInfo> infos, UnixMillis now);

  // By name or alias, as this team sees it: builtin ones are everybody's, the others their team's.
  // kNotFound names the ones it has.
  Result<Template> find(std::string_view name, std::string_view team_id) const;
  // The same, but only if sandboxes can be made of it; else kFailedPrecondition with reason
  // template_not_ready or template_failed.
  Result<Template> find_ready(std::string_view name, std::string_view team_id) const;
  // As find_ready, without a copy: valid until a template changes.
  Result<const Template*> look_up_ready(std::string_view name, std::string_view team_id) const;
  // Of whatever team; null when no sandbox can be made of it.
  const std::vector<std::string>* ready_layers(std::string_view name) const;
  void each_ready(const std::function<void(const Template&, const TemplateDefaults&)>& look) const;
  // Whether any team has it: names are unique on a server.
  bool taken(std::string_view name) const;
  // A builtin that the node has and does not make at the moment.
  bool absent(std::string_view name) const;
  // Of a template that the team does not have (any more): those of the platform.
  const TemplateDefaults& defaults(std::string_view name, std::string_view team_id) const;
  // The same for a template that was found for its team just before.
  const TemplateDefaults& defaults(std::string_view name) const;
  TemplateNetwork network(std::string_view name, std::string_view team_id) const;
  // Told when a template has changed, until `who` says it wants nothing ({}).
  void on_changed(const void* who, std::function<void()> changed);
  // Told when sandboxes of a template may begin otherwise from now on, or there is none any more.
  void on_layers_changed(std::function<void()> changed) { layers_changed_ = std::move(changed); }
  // Told when sandboxes were made of a template.
  void on_used(const void* who, std::function<void(const Template&)> used);
  // Every team's, builtin first.
  std::vector<Template> all() const;
  bool any_ready() const;

  TemplateUse use_of(std::string_view name) const;
  void note_use(const std::string& name, UnixMillis at);
  // Every team may use it from now on, or no longer. Not remembered.
  void share(std::string_view name, bool shared);

  // Inserts or replaces, in the store first.
  Task<> put(StoreAccess store, Template value);
  Task<> remove(StoreAccess store, std::string name);
  // A builtin's state as an event told it.
  void note_builtin(const node::Event& event);

 private:
  struct Entry {
    Template row;
    TemplateDefaults defaults;
    TemplateNetwork network;
  };
  bool visible(const Entry* entry, std::string_view team_id) const;
  Task<> load(StoreAccess store, UnixMillis now);
  const Entry* entry(std::string_view name) const;
  Result<const Entry*> look_up(std::string_view name, std::string_view team_id) const;
  void keep(Template value);
  void tell_layers_changed() const;
  void tell_changed() const;

  std::function<void()> layers_changed_;
  std::map<const void*, std::function<void()>> changed_;
  std::map<const void*, std::function<void(const Template&)>> used_;
  bool loaded_ = false;
  std::map<std::string, Entry, std::less<>> entries_;
  std::set<std::string, std::less<>> absent_;
  std::set<std::string, std::less<>> shared_;
  std::map<std::string, TemplateUse, std::less<>> uses_;
  std::map<std::string, UnixMillis, std::less<>> builtin_since_;  // as the store has it
};

// [a-z0-9][a-z0-9._-]{0,62}: lower-cased by the caller.
Result<> check_template_name(std::string_view name);

}  // namespace atl::control
