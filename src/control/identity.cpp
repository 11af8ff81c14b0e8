#include "control/identity.h"

#include <algorithm>
#include <array>

#include "base/log.h"
#include "base/random.h"
#include "base/strings.h"

namespace atl::control {
namespace {

constexpr const char* kAdminKeyId = "key-admin";
constexpr std::size_t kMaxKeyTextBytes = 512;
constexpr Duration kTouchInterval = std::chrono::minutes{1};

struct RoleRow {
  std::string_view role;
  bool create, read, write, remove, template_read;
};
constexpr std::array<RoleRow, 4> kRoles{{
    {"admin", true, true, true, true, true},
    {"developer", true, true, true, true, true},
    {"builder", false, false, false, false, true},
    {"viewer", false, true, false, false, true},
}};

bool role_may(const RoleRow& row, Permission permission) {
  switch (permission) {
    case Permission::kSandboxCreate:
    case Permission::kVolumeCreate:
      return row.create;
    case Permission::kSandboxRead:
    case Permission::kVolumeRead:
    case Permission::kVolumeFileRead:
    case Permission::kCredentialSourceRead:
      return row.read;
    case Permission::kSandboxWrite:
    case Permission::kVolumeWrite:
    case Permission::kVolumeFileWrite:
    case Permission::kCredentialSourceWrite:
      return row.write;
    case Permission::kSandboxDelete:
    case Permission::kVolumeDelete:
    case Permission::kCredentialSourceDelete:
      return row.remove;
    case Permission::kTemplateRead:
      return row.template_read;
    case Permission::kTemplateWrite:
      return row.role == "admin";
  }
  return false;
}

// E2B's clients insist on keys of their form; ours has the same digits.
std::string own_form(std::string_view key_text) {
  constexpr std::string_view kForeign = "e2b_";
  return key_text.starts_with(kForeign) ? concat("atoll_", key_text.substr(kForeign.size()))
                                        : std::string{key_text};
}

}  // namespace

std::string_view permission_name(Permission permission) {
  switch (permission) {
    case Permission::kSandboxCreate:
      return "sandbox:create";
    case Permission::kSandboxRead:
      return "sandbox:read";
    case Permission::kSandboxWrite:
      return "sandbox:write";
    case Permission::kSandboxDelete:
      return "sandbox:delete";
    case Permission::kTemplateRead:
      return "template:read";
    case Permission::kTemplateWrite:
      return "template:write";
    case Permission::kVolumeCreate:
      return "sandboxvolume:create";
    case Permission::kVolumeRead:
      return "sandboxvolume:read";
    case Permission::kVolumeWrite:
      return "sandboxvolume:write";
    case Permission::kVolumeDelete:
      return "sandboxvolume:delete";
    case Permission::kVolumeFileRead:
      return "sandboxvolumefile:read";
    case Permission::kVolumeFileWrite:
      return "sandboxvolumefile:write";
    case Permission::kCredentialSourceRead:
      return "credentialsource:read";
    case Permission::kCredentialSourceWrite:
      return "credentialsource:write";
    case Permission::kCredentialSourceDelete:
      return "credentialsource:delete";
  }
  return "";
}

bool Principal::may(Permission permission) const {
  return std::any_of(roles.begin(), roles.end(), [permission](const std::string& role) {
    return std::any_of(kRoles.begin(), kRoles.end(), [&](const RoleRow& row) {
      return row.role == role && role_may(row, permission);
    });
  });
}

Task<> Identity::load() {
  CO_TRY(auto rows, co_await store_.run([](store::Store& store) { return store.list_api_keys(); }));
  keys_.clear();
  for (auto& row : rows) {
    keys_.push_back(Key{std::move(row)});
  }
  co_return ok();
}

Result<Principal> Identity::authenticate(std::string_view key_text) {
  const auto refuse = [] {
    return fail(Code::kUnauthenticated,
                "the API key is not valid; send it as \"Authorization: Bearer <key>\"");
  };
  if (key_text.empty() || key_text.size() > kMaxKeyTextBytes) {
    return refuse();
  }
  const std::string hash = sha256(own_form(key_text));
  Key* match = nullptr;
  for (auto& key : keys_) {
    // Every key is compared, so the time taken says nothing about which one matched.
    if (equal_constant_time(key.row.key_sha256, hash)) {
      match = &key;
    }
  }
  const UnixMillis now = clock_.now();
  if (match == nullptr || !match->row.active ||
      (match->row.expires_at && *match->row.expires_at <= now)) {
    return refuse();
  }
  match->row.last_used_at = now;
  match->touched = true;
  return Principal{match->row.id, match->row.team_id, match->row.roles};
}

Task<> Identity::ensure_admin_key(std::string key_sha256) {
  for (const auto& key : keys_) {
    if (key.row.id == kAdminKeyId && key.row.active && key.row.key_sha256 == key_sha256) {
      co_return ok();
    }
  }
  store::ApiKey row{.id = kAdminKeyId,
                    .name = "admin",
                    .key_sha256 = std::move(key_sha256),
                    .roles = {"admin"},
                    .created_at = clock_.now()};
  CO_TRY_DO(co_await store_.run([&row](store::Store& store) { return store.put_api_key(row); }));
  LOG_INFO("admin key recorded", {"key", row.id});
  co_return co_await load();
}

Task<> Identity::write_touched() {
  std::vector<std::pair<std::string, UnixMillis>> uses;
  for (auto& key : keys_) {
    if (key.touched) {
      key.touched = false;
      uses.emplace_back(key.row.id, *key.row.last_used_at);
    }
  }
  co_return co_await store_.run([&uses](store::Store& store) -> Result<> {
    for (const auto& [id, at] : uses) {
      TRY_DO(store.touch_api_key(id, at));
    }
    return {};
  });
}

Task<> Identity::run() {
  for (;;) {
    CO_TRY_DO(co_await sleep_for(kTouchInterval));
    if (auto written = co_await write_touched(); !written) {
      LOG_WARN("could not record when API keys were used", {"error", written.error()});
    }
  }
}

}  // namespace atl::control
