#include "control/credential_sources.h"

#include "base/fault_point.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"

namespace atl::control {
namespace {

constexpr const char* kRecordKind = "credential-source";

std::string record_id(std::string_view team_id, std::string_view name) {
  return concat(team_id, "/", name);
}

std::string bound_to(const CredentialSource& source) {
  return concat("credential-source/", source.team_id, "/", source.name, "/", source.version);
}

std::string own_values_of(std::string_view team_id) {
  return concat("credential-binding/", team_id);
}

std::unexpected<Error> no_such_source(std::string_view name) {
  return fail(Code::kNotFound,
              concat("there is no credential source \"", to_valid_utf8(name), "\""),
              "credential_source_not_found");
}

}  // namespace

Task<> CredentialSources::start() {
  CO_TRY(const auto records,
         co_await store_.run([](store::Store& store) { return store.list_records(kRecordKind); }));
  for (const store::Record& record : records) {
    if (auto loaded = co_await load(record); !loaded) {
      LOG_ERROR("a stored credential source is unusable", {"source", record.id},
                {"error", loaded.error()});
    }
  }
  co_return ok();
}

Task<> CredentialSources::load(const store::Record& record) {
  CO_TRY(const Json body, Json::parse(record.body));
  CO_TRY(const auto fields, Fields::of(body, "source", {"kind", "sealed", "labels"}));
  CO_TRY(const auto kind, fields.required_string("kind"));
  Entry entry;
  CO_TRY(entry.sealed, fields.required_string("sealed"));
  CO_TRY(entry.source.kind, source_kind_of(kind));
  CO_TRY(entry.source.labels, fields.string_map("labels"));
  entry.source.team_id = record.team_id;
  entry.source.name = record.id.substr(std::min(record.id.size(), record.team_id.size() + 1));
  entry.source.version = record.version;
  entry.source.created_at = record.created_at;
  entry.source.updated_at = record.updated_at;
  const auto opened = keyring_.open(entry.sealed, bound_to(entry.source));
  entry.source.readable = opened.has_value();
  const Key key{entry.source.team_id, entry.source.name};
  const bool renew = opened && !keyring_.is_current(entry.sealed);
  Entry renewed = entry;
  entries_.insert_or_assign(key, std::move(entry));
  if (!opened) {
    co_return fail(opened.error());
  }
  if (renew) {
    CO_TRY(renewed.sealed, keyring_.seal(*opened, bound_to(renewed.source)));
    const std::int64_t version = renewed.source.version;
    CO_TRY_DO(co_await put(std::move(renewed), version));
  }
  co_return ok();
}

const CredentialSources::Entry* CredentialSources::find(std::string_view team_id,
                                                        std::string_view name) const {
  const auto found = entries_.find(Key{team_id, name});
  return found == entries_.end() || found->second.removing ? nullptr : &found->second;
}

Result<std::string> CredentialSources::seal(const CredentialSource& source,
                                            const SecretValues& values) const {
  TRY(const auto packed, pack_values(values));
  return keyring_.seal(packed, bound_to(source));
}

store::Record CredentialSources::record_of(const Entry& entry) {
  Json body =
      Json::object({{"kind", source_kind_name(entry.source.kind)}, {"sealed", entry.sealed}});
  if (!entry.source.labels.empty()) {
    Json labels = Json::object();
    for (const auto& [name, value] : entry.source.labels) {
      labels.set(name, value);
    }
    body.set("labels", std::move(labels));
  }
  return {.kind = kRecordKind,
          .id = record_id(entry.source.team_id, entry.source.name),
          .team_id = entry.source.team_id,
          .owner_id = {},
          .version = entry.source.version,
          .body = body.dump(),
          .created_at = entry.source.created_at,
          .updated_at = entry.source.updated_at};
}

Task<> CredentialSources::put(Entry entry, std::int64_t expected_version) {
  const store::Record record = record_of(entry);
  CO_TRY_DO(co_await store_.run(
      [&](store::Store& store) { return store.put_record(record, expected_version); }));
  ATOLL_FAULT_POINT("control.credential.recorded");
  entries_.insert_or_assign(Key{entry.source.team_id, entry.source.name}, std::move(entry));
  co_return ok();
}

Task<CredentialSource> CredentialSources::create(std::string team_id, std::string name,
                                                 CredentialSpec spec) {
  return shielded(create_now(std::move(team_id), std::move(name), std::move(spec)));
}

Task<CredentialSource> CredentialSources::create_now(std::string team_id, std::string name,
                                                     CredentialSpec spec) {
  CO_TRY_DO(check_source_name(name));
  const auto taken = [&] {
    return fail(Code::kAlreadyExists,
                concat("there is already a credential source \"", name, "\"; PUT replaces it"));
  };
  if (entries_.contains(Key{team_id, name})) {
    co_return taken();
  }
  if (list(team_id).size() >= kMaxSourcesPerTeam) {
    co_return fail(Code::kResourceExhausted,
                   concat("a team has at most ", kMaxSourcesPerTeam, " credential sources"),
                   "quota_exceeded");
  }
  const UnixMillis now = clock_.now();
  Entry entry{.source = {.team_id = team_id,
                         .name = name,
                         .kind = spec.kind,
                         .labels = spec.labels.value_or(store::StringMap{}),
                         .created_at = now,
                         .updated_at = now},
              .sealed = {}};
  CO_TRY(entry.sealed, seal(entry.source, spec.values));
  const CredentialSource made = entry.source;
  auto written = co_await put(std::move(entry), 0);
  if (!written && written.error().reason == "changed") {
    co_return taken();
  }
  CO_TRY_DO(std::move(written));
  LOG_INFO("credential source made", {"team", team_id}, {"source", name},
           {"kind", source_kind_name(made.kind)});
  co_return made;
}

Task<CredentialSource> CredentialSources::rotate(std::string team_id, std::string name,
                                                 CredentialSpec spec) {
  return shielded(rotate_now(std::move(team_id), std::move(name), std::move(spec)));
}

Task<CredentialSource> CredentialSources::rotate_now(std::string team_id, std::string name,
                                                     CredentialSpec spec) {
  const Entry* const before = find(team_id, name);
  if (before == nullptr) {
    co_return no_such_source(name);
  }
  if (before->source.kind != spec.kind) {
    co_return fail(Code::kInvalidArgument,
                   concat("field \"resolverKind\": a source stays what it is, and this one is ",
                          source_kind_name(before->source.kind)));
  }
  const std::int64_t expected = before->source.version;
  Entry next{.source = before->source, .sealed = {}};
  next.source.version = expected + 1;
  next.source.readable = true;
  next.source.labels = spec.labels.value_or(before->source.labels);
  next.source.updated_at = clock_.now();
  CO_TRY(next.sealed, seal(next.source, spec.values));
  const CredentialSource made = next.source;
  CO_TRY_DO(co_await put(std::move(next), expected));
  LOG_INFO("credential source rotated", {"team", team_id}, {"source", name},
           {"version", made.version});
  co_return made;
}

Task<> CredentialSources::keep_values(std::string team_id, std::string name, std::int64_t version,
                                      SecretValues values) {
  const Entry* const before = find(team_id, name);
  if (before == nullptr || before->source.version != version) {
    co_return ok();
  }
  Entry next{.source = before->source, .sealed = {}};
  CO_TRY(next.sealed, seal(next.source, values));
  auto written = co_await put(std::move(next), version);
  if (!written && written.error().reason == "changed") {
    co_return ok();
  }
  co_return written;
}

Task<> CredentialSources::remove(std::string team_id, std::string name) {
  return shielded(remove_now(std::move(team_id), std::move(name)));
}

Task<> CredentialSources::remove_now(std::string team_id, std::string name) {
  if (find(team_id, name) == nullptr) {
    co_return no_such_source(name);
  }
  if (bound_ && bound_(team_id, name)) {
    co_return fail(Code::kFailedPrecondition,
                   concat("credential source \"", name,
                          "\" is bound by a sandbox; remove it from their networks first"),
                   "credential_in_use");
  }
  // Nobody binds it from now on.
  entries_.at(Key{team_id, name}).removing = true;
  const std::string id = record_id(team_id, name);
  auto removed = co_await store_.run(
      [&](store::Store& store) { return store.remove_record(kRecordKind, id); });
  if (!removed) {
    entries_.at(Key{team_id, name}).removing = false;
    co_return removed;
  }
  ATOLL_FAULT_POINT("control.credential.removed");
  entries_.erase(Key{team_id, name});
  LOG_INFO("credential source removed", {"team", team_id}, {"source", name});
  co_return ok();
}

Result<CredentialSource> CredentialSources::get(std::string_view team_id,
                                                std::string_view name) const {
  const Entry* const entry = find(team_id, name);
  if (entry == nullptr) {
    return no_such_source(name);
  }
  return entry->source;
}

std::vector<CredentialSource> CredentialSources::list(std::string_view team_id) const {
  std::vector<CredentialSource> sources;
  for (auto at = entries_.lower_bound(Key{team_id, ""}); at != entries_.end(); ++at) {
    if (at->first.first != team_id) {
      break;
    }
    sources.push_back(at->second.source);
  }
  return sources;
}

Result<OpenedSource> CredentialSources::open(std::string_view team_id,
                                             std::string_view name) const {
  const Entry* const entry = find(team_id, name);
  if (entry == nullptr) {
    return fail(Code::kFailedPrecondition,
                concat("the credential source \"", to_valid_utf8(name), "\" is gone"),
                "credential_source_not_found");
  }
  auto packed = keyring_.open(entry->sealed, bound_to(entry->source));
  if (!packed) {
    return fail(Code::kFailedPrecondition,
                concat("the credential source \"", name, "\" cannot be opened; write it again"),
                "credential_unreadable");
  }
  OpenedSource opened{.source = entry->source, .values = {}};
  TRY(opened.values, unpack_values(*packed));
  return opened;
}

Result<std::string> CredentialSources::seal_own(std::string_view team_id,
                                                const SecretValues& values) const {
  TRY(const auto packed, pack_values(values));
  return keyring_.seal(packed, own_values_of(team_id));
}

Result<OpenedSource> CredentialSources::open_own(std::string_view team_id,
                                                 const egress::Binding& binding) const {
  OpenedSource out{.source = {.team_id = std::string{team_id}, .name = binding.ref}, .values = {}};
  if (!binding.sealed.empty()) {
    auto packed = keyring_.open(binding.sealed, own_values_of(team_id));
    if (!packed) {
      return fail(Code::kFailedPrecondition, "the binding's own values cannot be opened",
                  "credential_unreadable");
    }
    TRY(out.values, unpack_values(*packed));
  }
  for (std::size_t i = 0; i < binding.late_sources.size(); ++i) {
    TRY(auto opened, open(team_id, binding.late_sources[i]));
    if (is_dynamic(opened.source.kind)) {
      return fail(Code::kFailedPrecondition,
                  concat("the credential source \"", binding.late_sources[i],
                         "\" has no values of its own"),
                  "credential_kind");
    }
    for (auto& [key, value] : opened.values) {
      out.values.insert_or_assign(concat("source", i, "_", key), std::move(value));
    }
  }
  return out;
}

Result<> CredentialSources::check_binding(std::string_view team_id,
                                          const egress::Binding& binding) const {
  if (binding.has_own_values()) {
    const egress::Binding own{.ref = binding.ref, .sealed = binding.sealed};
    TRY_DO(open_own(team_id, own));
    return {};
  }
  const Entry* const entry = find(team_id, binding.source_ref);
  if (entry == nullptr) {
    return fail(Code::kInvalidArgument, concat("there is no credential source \"",
                                               to_valid_utf8(binding.source_ref), "\""));
  }
  if (!can_project(entry->source.kind, binding.projection.kind)) {
    return fail(Code::kInvalidArgument,
                concat("a source of kind ", source_kind_name(entry->source.kind),
                       " cannot be used as ", projection_name(binding.projection.kind)));
  }
  return {};
}

std::optional<std::size_t> CredentialSources::value_length(std::string_view team_id,
                                                           const egress::Binding& binding,
                                                           std::string_view value_template) const {
  const auto opened =
      binding.has_own_values() ? open_own(team_id, binding) : open(team_id, binding.source_ref);
  if (!opened || is_dynamic(opened->source.kind)) {
    return std::nullopt;
  }
  const auto parsed = ValueTemplate::parse(value_template);
  auto value = parsed ? parsed->render(opened->values) : Result<std::string>{fail(parsed.error())};
  if (!value) {
    return std::nullopt;
  }
  const std::size_t size = value->size();
  secrets::wipe(*value);
  return size;
}

std::optional<std::string> CredentialSources::renewed(std::string_view team_id,
                                                      const egress::Binding& binding) const {
  if (binding.sealed.empty() || keyring_.is_current(binding.sealed)) {
    return std::nullopt;
  }
  const auto packed = keyring_.open(binding.sealed, own_values_of(team_id));
  auto sealed = packed ? keyring_.seal(*packed, own_values_of(team_id))
                       : Result<std::string>{fail(packed.error())};
  return sealed ? std::optional{*std::move(sealed)} : std::nullopt;
}

}  // namespace atl::control
