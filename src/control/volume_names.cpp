#include "control/volume_names.h"

#include <algorithm>

#include "base/json_fields.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"

namespace atl::control {
namespace {

constexpr const char* kKind = "volume-name";

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxVolumeNameBytes &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
         });
}

std::string record_id(const std::pair<std::string, std::string>& key) {
  return concat(key.first, "/", key.second);
}

// A name is taken from the moment somebody asks for it.
class Reservation {
 public:
  using Key = std::pair<std::string, std::string>;
  Reservation(std::set<Key>& all, const Key& key) : all_(all), key_(key) { all_.insert(key); }
  ~Reservation() { all_.erase(key_); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

 private:
  std::set<Key>& all_;
  Key key_;
};

}  // namespace

Task<> VolumeNames::start() {
  CO_TRY(const auto records,
         co_await store_.run([](store::Store& store) { return store.list_records(kKind); }));
  for (const store::Record& record : records) {
    const auto body = Json::parse(record.body);
    const Json* const volume = body ? body->find("volume_id") : nullptr;
    const std::string* const id = volume == nullptr ? nullptr : volume->as_string();
    if (id == nullptr || !volumes_.exists(record.team_id, *id)) {
      CO_TRY_DO(co_await store_.run(
          [&](store::Store& store) { return store.remove_record(kKind, record.id); }));
      continue;
    }
    const std::size_t prefix = std::min(record.id.size(), record.team_id.size() + 1);
    names_.insert_or_assign(Key{record.team_id, record.id.substr(prefix)},
                            Entry{*id, record.version});
  }
  co_return ok();
}

std::optional<std::string> VolumeNames::find(std::string_view team_id,
                                             std::string_view name) const {
  const auto found = names_.find(Key{team_id, name});
  if (found != names_.end() && volumes_.exists(team_id, found->second.volume_id)) {
    return found->second.volume_id;
  }
  return volumes_.exists(team_id, name) ? std::optional{std::string{name}} : std::nullopt;
}

std::string VolumeNames::name_of(std::string_view team_id, const std::string& volume_id) const {
  for (auto at = names_.lower_bound(Key{team_id, ""});
       at != names_.end() && at->first.first == team_id; ++at) {
    if (at->second.volume_id == volume_id) {
      return at->first.second;
    }
  }
  return volume_id;
}

Task<VolumeView> VolumeNames::create(std::string team_id, std::string name, VolumeCreate request) {
  return shielded(create_now(std::move(team_id), std::move(name), std::move(request)));
}

Task<VolumeView> VolumeNames::create_now(std::string team_id, std::string name,
                                         VolumeCreate request) {
  if (!is_name(name)) {
    co_return fail(Code::kInvalidArgument,
                   concat("the name of a volume is 1 to ", kMaxVolumeNameBytes,
                          " letters, digits, '_' and '-'"));
  }
  const Key key{team_id, name};
  if (find(team_id, name) || making_.contains(key)) {
    co_return fail(Code::kAlreadyExists, concat("there is already a volume \"", name, "\""));
  }
  const Reservation reserved{making_, key};
  CO_TRY(auto made, co_await volumes_.create(team_id, std::move(request)));
  auto named = co_await put(key, made.volume.id);
  if (!named) {
    (void)co_await volumes_.remove(team_id, made.volume.id, false);
    co_return fail(std::move(named).error().note("recording the name of the volume"));
  }
  co_return std::move(made);
}

Task<> VolumeNames::put(Key key, std::string volume_id) {
  const auto before = names_.find(key);
  const std::int64_t expected = before == names_.end() ? 0 : before->second.version;
  const store::Record record{.kind = kKind,
                             .id = record_id(key),
                             .team_id = key.first,
                             .version = expected + 1,
                             .body = Json::object({{"volume_id", volume_id}}).dump(),
                             .created_at = clock_.now(),
                             .updated_at = clock_.now()};
  CO_TRY_DO(
      co_await store_.run([&](store::Store& store) { return store.put_record(record, expected); }));
  names_.insert_or_assign(std::move(key), Entry{std::move(volume_id), expected + 1});
  co_return ok();
}

Task<> VolumeNames::forget(std::string team_id, std::string volume_id) {
  const std::string name = name_of(team_id, volume_id);
  const auto found = names_.find(Key{team_id, name});
  if (found == names_.end()) {
    co_return ok();
  }
  const std::string id = record_id(found->first);
  names_.erase(found);
  co_return co_await store_.run(
      [id](store::Store& store) { return store.remove_record(kKind, id); });
}

}  // namespace atl::control
