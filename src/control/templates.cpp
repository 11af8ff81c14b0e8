#include "control/templates.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "control/template_spec.h"

namespace atl::control {
namespace {

constexpr std::size_t kMaxNameBytes = 63;

std::string_view alias_of(std::string_view name) {
  return name == kDefaultTemplate ? "base" : "";
}

TemplateDefaults platform_defaults(std::string_view name) {
  TemplateDefaults defaults{.user = std::string{kPlatformUser},
                            .cwd = std::string{kPlatformDirectory}};
  if (name == "code-interpreter-v1") {
    defaults.preload = {"numpy", "pandas", "matplotlib.pyplot"};
  }
  return defaults;
}

}  // namespace

Result<> check_template_name(std::string_view name) {
  const auto small = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const bool good = !name.empty() && name.size() <= kMaxNameBytes && small(name.front()) &&
                    std::ranges::all_of(
                        name, [&](char c) { return small(c) || c == '.' || c == '_' || c == '-'; });
  if (!good) {
    return fail(Code::kInvalidArgument,
                concat("\"", to_valid_utf8(name), "\" is no template id; use 1 to ", kMaxNameBytes,
                       " of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"));
  }
  return {};
}

void Templates::keep(Template value) {
  TemplateDefaults defaults =
      value.builtin ? platform_defaults(value.name) : template_defaults(value);
  TemplateNetwork network = value.builtin ? TemplateNetwork{} : template_network(value);
  std::string name = value.name;
  entries_.insert_or_assign(std::move(name),
                            Entry{std::move(value), std::move(defaults), std::move(network)});
  tell_layers_changed();
}

void Templates::tell_layers_changed() const {
  if (layers_changed_) {
    layers_changed_();
  }
}

Task<> Templates::load(StoreAccess store, UnixMillis now) {
  CO_TRY(auto rows, co_await store.run([](store::Store& s) { return s.list_templates(); }));
  for (Template& row : rows) {
    if (row.builtin) {
      builtin_since_[row.name] = row.created_at;
      continue;  // the node knows the rest
    }
    if (row.state == TemplateState::kCreating) {
      row.state = TemplateState::kFailed;
      row.failure = "the server stopped while it was being made; make it again";
      row.updated_at = now;
      CO_TRY_DO(co_await store.run([&row](store::Store& s) { return s.put_template(row); }));
      LOG_WARN("a template was not finished", {"template", row.name});
    }
    keep(std::move(row));
  }
  loaded_ = true;
  co_return ok();
}

Task<> Templates::refresh(StoreAccess store, std::vector<node::TemplateInfo> infos,
                          UnixMillis now) {
  if (!loaded_) {
    CO_TRY_DO(co_await load(store, now));
  }
  using State = node::TemplateInfo::State;
  absent_.clear();
  bool changed = false;
  for (auto& info : infos) {
    const Entry* known = entry(info.name);
    Template value{.name = info.name, .layers = std::move(info.layers), .created_at = now};
    if (const auto since = builtin_since_.find(value.name);
        since != builtin_since_.end() && since->second > 0) {
      value.created_at = since->second;
    }
    value.alias = alias_of(value.name);
    if (info.state != State::kReady) {
      value.state = TemplateState::kCreating;
      value.failure = "it is made at its first use, which takes some minutes once";
      if (info.state == State::kAbsent) {
        absent_.insert(value.name);
      }
    }
    if (known != nullptr && known->row.builtin && known->row.layers == value.layers &&
        known->row.state == value.state) {
      continue;
    }
    value.updated_at = now;
    if (value.state == TemplateState::kReady) {
      CO_TRY_DO(co_await store.run([&value](store::Store& s) { return s.put_template(value); }));
    }
    keep(std::move(value));
    changed = true;
  }
  if (changed) {
    tell_changed();
  }
  co_return ok();
}

void Templates::note_builtin(const node::Event& event) {
  const auto found = entries_.find(event.id);
  if (found == entries_.end() || !found->second.row.builtin) {
    return;
  }
  using Kind = node::Event::Kind;
  if (event.kind == Kind::kTemplateProgress) {
    absent_.erase(event.id);
    found->second.row.failure = event.text;
  } else if (event.kind == Kind::kTemplateFailed) {
    absent_.insert(event.id);
    found->second.row.failure = event.text;
  }
}

const Templates::Entry* Templates::entry(std::string_view name) const {
  if (const auto found = entries_.find(name); found != entries_.end()) {
    return &found->second;
  }
  for (const auto& [key, candidate] : entries_) {
    if (!candidate.row.alias.empty() && candidate.row.alias == name) {
      return &candidate;
    }
  }
  return nullptr;
}

bool Templates::visible(const Entry* entry, std::string_view team_id) const {
  return entry != nullptr &&
         (entry->row.builtin || entry->row.team_id == team_id || shared_.contains(entry->row.name));
}

TemplateUse Templates::use_of(std::string_view name) const {
  const auto found = uses_.find(name);
  return found == uses_.end() ? TemplateUse{} : found->second;
}

void Templates::note_use(const std::string& name, UnixMillis at) {
  if (const auto found = entries_.find(name); found != entries_.end()) {
    TemplateUse& use = uses_[name];
    ++use.count;
    use.last_at = at;
    for (const auto& [who, used] : used_) {
      used(found->second.row);
    }
  }
}

void Templates::on_changed(const void* who, std::function<void()> changed) {
  changed_.erase(who);
  if (changed) {
    changed_.emplace(who, std::move(changed));
  }
}

void Templates::on_used(const void* who, std::function<void(const Template&)> used) {
  used_.erase(who);
  if (used) {
    used_.emplace(who, std::move(used));
  }
}

void Templates::tell_changed() const {
  for (const auto& [who, changed] : changed_) {
    changed();
  }
}

void Templates::share(std::string_view name, bool shared) {
  if (shared) {
    shared_.emplace(name);
  } else if (const auto found = shared_.find(name); found != shared_.end()) {
    shared_.erase(found);
  }
}

Result<Template> Templates::find(std::string_view name, std::string_view team_id) const {
  TRY(const Entry* found, look_up(name, team_id));
  return found->row;
}

Result<const Templates::Entry*> Templates::look_up(std::string_view name,
                                                   std::string_view team_id) const {
  if (const Entry* found = entry(name); visible(found, team_id)) {
    return found;
  }
  std::string known;
  for (const auto& [key, value] : entries_) {
    if (!visible(&value, team_id)) {
      continue;
    }
    known += known.empty() ? "" : ", ";
    known += key;
  }
  return fail(Code::kNotFound,
              concat("there is no template \"", to_valid_utf8(name),
                     "\"; there is: ", known.empty() ? "none" : known),
              "template_not_found");
}

bool Templates::taken(std::string_view name) const {
  return entry(name) != nullptr;
}

Result<Template> Templates::find_ready(std::string_view name, std::string_view team_id) const {
  TRY(const Template* value, look_up_ready(name, team_id));
  return *value;
}

Result<const Template*> Templates::look_up_ready(std::string_view name,
                                                 std::string_view team_id) const {
  TRY(const Entry* found, look_up(name, team_id));
  const Template& value = found->row;
  if (value.state == TemplateState::kReady) {
    return &value;
  }
  if (value.state == TemplateState::kFailed) {
    return fail(Code::kFailedPrecondition,
                concat("template ", value.name, " could not be made: ", value.failure),
                "template_failed");
  }
  return fail(Code::kFailedPrecondition,
              concat("template ", value.name, " is not ready yet",
                     value.failure.empty() ? "" : ": ", value.failure),
              "template_not_ready");
}

const std::vector<std::string>* Templates::ready_layers(std::string_view name) const {
  const Entry* found = entry(name);
  const bool ready = found != nullptr && found->row.state == TemplateState::kReady;
  return ready ? &found->row.layers : nullptr;
}

void Templates::each_ready(
    const std::function<void(const Template&, const TemplateDefaults&)>& look) const {
  for (const auto& [name, value] : entries_) {
    if (value.row.state == TemplateState::kReady) {
      look(value.row, value.defaults);
    }
  }
}

bool Templates::absent(std::string_view name) const {
  return absent_.contains(name);
}

const TemplateDefaults& Templates::defaults(std::string_view name) const {
  static const TemplateDefaults kPlatform = platform_defaults({});
  const Entry* found = entry(name);
  return found == nullptr ? kPlatform : found->defaults;
}

const TemplateDefaults& Templates::defaults(std::string_view name, std::string_view team_id) const {
  const Entry* found = entry(name);
  return defaults(visible(found, team_id) ? name : std::string_view{});
}

TemplateNetwork Templates::network(std::string_view name, std::string_view team_id) const {
  const Entry* found = entry(name);
  if (!visible(found, team_id)) {
    return {.network = nullptr,
            .failure = concat("its template \"", to_valid_utf8(name), "\" is gone")};
  }
  return found->network;
}

std::vector<Template> Templates::all() const {
  std::vector<Template> values;
  for (const bool builtin : {true, false}) {
    for (const auto& [name, value] : entries_) {
      if (value.row.builtin == builtin) {
        values.push_back(value.row);
      }
    }
  }
  return values;
}

bool Templates::any_ready() const {
  return std::ranges::any_of(
      entries_, [](const auto& item) { return item.second.row.state == TemplateState::kReady; });
}

Task<> Templates::put(StoreAccess store, Template value) {
  CO_TRY_DO(co_await store.run([&value](store::Store& s) { return s.put_template(value); }));
  keep(std::move(value));
  tell_changed();
  co_return ok();
}

Task<> Templates::remove(StoreAccess store, std::string name) {
  CO_TRY_DO(co_await store.run([&name](store::Store& s) { return s.remove_template(name); }));
  entries_.erase(name);
  shared_.erase(name);
  uses_.erase(name);
  tell_layers_changed();
  tell_changed();
  co_return ok();
}

}  // namespace atl::control
