#include "control/ssh_keys.h"

#include <algorithm>

#include "base/json.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strings.h"
#include "ssh/private_key.h"

namespace atl::control {
namespace {

constexpr const char* kKeyKind = "ssh-key";
constexpr const char* kHostKeyKind = "ssh-host-key";
constexpr const char* kHostKeyId = "gateway";

Result<SshKey> read_record(const store::Record& record) {
  TRY(const Json body, Json::parse(record.body));
  const Json* name = body.find("name");
  const Json* line = body.find("public_key");
  if (name == nullptr || name->as_string() == nullptr || line == nullptr ||
      line->as_string() == nullptr) {
    return fail(Code::kDataLoss, "a stored SSH key has no name or no key");
  }
  TRY(auto key, ssh::parse_public_key(*line->as_string()));
  return SshKey{.id = record.id,
                .team_id = record.team_id,
                .name = *name->as_string(),
                .key = std::move(key),
                .created_at = record.created_at};
}

Result<std::string> find_host_key(store::Store& store) {
  TRY(const auto records, store.list_records(kHostKeyKind));
  for (const auto& record : records) {
    if (record.id == kHostKeyId) {
      return record.body;
    }
  }
  return std::string{};
}

}  // namespace

Task<> SshKeys::load() {
  CO_TRY(const auto records,
         co_await store_.run([](store::Store& store) { return store.list_records(kKeyKind); }));
  for (const auto& record : records) {
    auto key = read_record(record);
    if (key) {
      keys_.push_back(*std::move(key));
    } else {
      LOG_WARN("a stored SSH key is not used", {"key", record.id}, {"error", key.error()});
    }
  }
  co_return ok();
}

std::vector<SshKey> SshKeys::list(std::string_view team_id) const {
  std::vector<SshKey> found;
  for (const SshKey& key : keys_) {
    if (key.team_id == team_id) {
      found.push_back(key);
    }
  }
  return found;
}

Result<> SshKeys::check_new(std::string_view team_id, const ssh::PublicKey& key) const {
  std::size_t of_team = 0;
  for (const SshKey& other : keys_) {
    if (other.team_id != team_id) {
      continue;
    }
    ++of_team;
    if (other.key.blob == key.blob) {
      return fail(Code::kAlreadyExists, concat("this key is known already, as ", other.name));
    }
  }
  if (of_team >= kMaxSshKeysPerTeam) {
    return fail(Code::kResourceExhausted,
                concat("a team may have ", kMaxSshKeysPerTeam, " SSH keys; remove one first"),
                "quota_exceeded");
  }
  return {};
}

Task<SshKey> SshKeys::add(std::string team_id, std::string name, std::string line) {
  name = std::string{trim(name)};
  if (name.empty() || name.size() > kMaxSshKeyNameBytes || !is_utf8(name)) {
    co_return fail(Code::kInvalidArgument,
                   concat("\"name\" must have 1 to ", kMaxSshKeyNameBytes, " bytes"));
  }
  CO_TRY(auto key, ssh::parse_public_key(line));
  CO_TRY_DO(check_new(team_id, key));
  SshKey made{.id = concat("sshkey-", random_hex(16)),
              .team_id = std::move(team_id),
              .name = std::move(name),
              .key = std::move(key),
              .created_at = clock_.now()};
  const std::string text = concat(ssh::format_public_key(made.key),
                                  made.key.comment.empty() ? "" : " ", made.key.comment);
  const store::Record record{
      .kind = kKeyKind,
      .id = made.id,
      .team_id = made.team_id,
      .body = Json::object({{"name", made.name}, {"public_key", text}}).dump(),
      .created_at = made.created_at,
      .updated_at = made.created_at};
  // In the list before it is written: two that come at once cannot both be new.
  keys_.push_back(made);
  const std::string id = made.id;
  auto written =
      co_await store_.run([record](store::Store& store) { return store.put_record(record, 0); });
  if (!written) {
    std::erase_if(keys_, [&id](const SshKey& each) { return each.id == id; });
    co_return fail(std::move(written).error());
  }
  co_return std::move(made);
}

Task<> SshKeys::remove(std::string team_id, std::string id) {
  const auto is_it = [&team_id, &id](const SshKey& key) {
    return key.id == id && key.team_id == team_id;
  };
  if (std::none_of(keys_.begin(), keys_.end(), is_it)) {
    co_return fail(Code::kNotFound, concat("there is no SSH key \"", to_valid_utf8(id), "\""));
  }
  CO_TRY_DO(
      co_await store_.run([id](store::Store& store) { return store.remove_record(kKeyKind, id); }));
  std::erase_if(keys_, is_it);
  co_return ok();
}

std::vector<std::string> SshKeys::teams_of(std::string_view blob) const {
  std::vector<std::string> teams;
  for (const SshKey& key : keys_) {
    if (equal_constant_time(key.key.blob, blob)) {
      teams.push_back(key.team_id);
    }
  }
  return teams;
}

Task<secrets::Plaintext> load_or_make_ssh_host_key(StoreAccess store,
                                                   const secrets::Keyring& keyring,
                                                   const WallClock& clock) {
  constexpr std::string_view kBoundTo = "ssh-host-key/gateway";
  CO_TRY(const std::string sealed, co_await store.run(find_host_key));
  if (!sealed.empty()) {
    co_return keyring.open(sealed, kBoundTo);
  }
  CO_TRY(std::string text, ssh::make_host_key());
  secrets::Plaintext key{text};
  secrets::wipe(text);
  CO_TRY(std::string body, keyring.seal(key, kBoundTo));
  const store::Record record{.kind = kHostKeyKind,
                             .id = kHostKeyId,
                             .body = std::move(body),
                             .created_at = clock.now(),
                             .updated_at = clock.now()};
  CO_TRY_DO(
      co_await store.run([record](store::Store& rows) { return rows.put_record(record, 0); }));
  co_return std::move(key);
}

}  // namespace atl::control
