#include "control/previews.h"

#include <algorithm>

#include "base/json.h"
#include "base/json_fields.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strings.h"

namespace atl::control {
namespace {

constexpr const char* kKind = "preview";

store::Record to_record(const Preview& preview, UnixMillis now) {
  const auto encoded = [](const std::string& bytes) { return base64_encode(bytes); };
  Json body = Json::object({{"creator", preview.creator},
                            {"port", preview.port},
                            {"secure", preview.secure},
                            {"path", preview.path},
                            {"expires_at", preview.expires_at},
                            {"generation", preview.generation},
                            {"link", encoded(preview.link_sha256)},
                            {"cookie", encoded(preview.cookie_sha256)},
                            {"token", encoded(preview.token_sha256)}});
  return {.kind = kKind,
          .id = preview.id,
          .team_id = preview.team_id,
          .owner_id = preview.sandbox_id,
          .version = preview.version,
          .body = body.dump(),
          .created_at = now,
          .updated_at = now};
}

Result<Preview> from_record(const store::Record& record) {
  TRY(const Json body, Json::parse(record.body));
  TRY(const auto fields, Fields::of(body, "",
                                    {"creator", "port", "secure", "path", "expires_at",
                                     "generation", "link", "cookie", "token"}));
  Preview preview{.id = record.id,
                  .sandbox_id = record.owner_id,
                  .team_id = record.team_id,
                  .version = record.version};
  TRY(preview.creator, fields.required_string("creator"));
  TRY(preview.path, fields.required_string("path"));
  TRY(const auto port, fields.integer("port", 1, 65'535));
  TRY(const auto secure, fields.boolean("secure"));
  TRY(const auto expires_at, fields.integer("expires_at", 0, INT64_MAX));
  TRY(const auto generation, fields.integer("generation", 0, INT64_MAX));
  preview.port = static_cast<std::uint16_t>(port.value_or(0));
  preview.secure = secure.value_or(false);
  preview.expires_at = expires_at.value_or(0);
  preview.generation = generation.value_or(0);
  for (const auto& [name, member] :
       {std::pair{"link", &Preview::link_sha256}, std::pair{"cookie", &Preview::cookie_sha256},
        std::pair{"token", &Preview::token_sha256}}) {
    TRY(const auto text, fields.string(name));
    preview.*member = base64_decode(text.value_or("")).value_or("");
  }
  return preview;
}

// "<id>.<secret>"
std::pair<std::string_view, std::string_view> split_credential(std::string_view text) {
  const auto dot = text.find('.');
  return dot == std::string_view::npos ? std::pair<std::string_view, std::string_view>{}
                                       : std::pair{text.substr(0, dot), text.substr(dot + 1)};
}

bool opens(std::string_view secret, const std::string& expected_sha256) {
  return !expected_sha256.empty() && equal_constant_time(sha256(secret), expected_sha256);
}

}  // namespace

Task<> Previews::start() {
  CO_TRY(const auto records,
         co_await store_.run([](store::Store& store) { return store.list_records(kKind); }));
  for (const store::Record& record : records) {
    auto preview = from_record(record);
    if (preview) {
      previews_.emplace(record.id, *std::move(preview));
    } else {
      LOG_ERROR("a preview cannot be read", {"preview", record.id}, {"error", preview.error()});
      previews_.emplace(record.id, Preview{.id = record.id});  // has ended
    }
  }
  co_return co_await forget_ended();
}

bool Previews::is_valid(const Preview& preview) const {
  const auto row = sandboxes_.get(preview.team_id, preview.sandbox_id);
  return row && preview.expires_at > clock_.now() && row->generation == preview.generation;
}

Task<> Previews::forget_ended() {
  std::vector<std::string> ended;
  for (const auto& [id, preview] : previews_) {
    if (!is_valid(preview)) {
      ended.push_back(id);
    }
  }
  for (const std::string& id : ended) {
    previews_.erase(id);
    CO_TRY_DO(
        co_await store_.run([&](store::Store& store) { return store.remove_record(kKind, id); }));
  }
  co_return ok();
}

// The table first: a link that is being used up is not good a second time meanwhile.
Task<> Previews::write(Preview preview) {
  const std::int64_t before = preview.version++;
  const store::Record record = to_record(preview, clock_.now());
  previews_.insert_or_assign(preview.id, std::move(preview));
  co_return co_await store_.run(
      [&](store::Store& store) { return store.put_record(record, before); });
}

Task<Previews::Made> Previews::create(std::string team_id, std::string sandbox_id,
                                      std::string creator, PreviewRequest request) {
  CO_TRY_DO(co_await forget_ended());
  CO_TRY_DO(co_await sandboxes_.running(team_id, sandbox_id));
  CO_TRY(const Sandbox row, sandboxes_.get(team_id, sandbox_id));
  const auto count = std::ranges::count_if(
      previews_, [&](const auto& each) { return each.second.sandbox_id == sandbox_id; });
  if (static_cast<std::size_t>(count) >= kMaxPreviewsPerSandbox) {
    co_return fail(Code::kResourceExhausted,
                   concat("the sandbox has ", count, " previews already; delete some first"),
                   "quota_exceeded");
  }
  Made made;
  const std::string link = random_hex(48);
  const std::string token = random_hex(48);
  made.preview = {.id = concat("pv-", random_hex(16)),
                  .sandbox_id = std::move(sandbox_id),
                  .team_id = std::move(team_id),
                  .creator = std::move(creator),
                  .port = request.port,
                  .secure = request.secure,
                  .path = std::move(request.path),
                  .expires_at = clock_.now() + request.ttl_seconds * 1000,
                  .generation = row.generation,
                  .version = 0,
                  .link_sha256 = sha256(link),
                  .token_sha256 = sha256(token)};
  made.link_secret = concat(made.preview.id, ".", link);
  made.token = concat(made.preview.id, ".", token);
  CO_TRY_DO(co_await write(made.preview));
  co_return std::move(made);
}

Result<Preview> Previews::get_own(std::string_view team_id, std::string_view sandbox_id,
                                  std::string_view creator, std::string_view id) const {
  TRY_DO(sandboxes_.get(team_id, sandbox_id));
  const auto found = previews_.find(id);
  // Somebody else's is as good as none.
  if (found == previews_.end() || found->second.team_id != team_id ||
      found->second.sandbox_id != sandbox_id || found->second.creator != creator ||
      !is_valid(found->second)) {
    return fail(Code::kNotFound, concat("there is no preview \"", to_valid_utf8(id), "\""),
                "preview_not_found");
  }
  return found->second;
}

Task<Preview> Previews::renew(std::string team_id, std::string sandbox_id, std::string creator,
                              std::string id, std::int64_t ttl_seconds) {
  CO_TRY(Preview preview, get_own(team_id, sandbox_id, creator, id));
  preview.expires_at = clock_.now() + ttl_seconds * 1000;
  CO_TRY_DO(co_await write(preview));
  co_return std::move(preview);
}

Task<> Previews::revoke(std::string team_id, std::string sandbox_id, std::string creator,
                        std::string id) {
  CO_TRY_DO(get_own(team_id, sandbox_id, creator, id));
  previews_.erase(id);
  co_return co_await store_.run(
      [&](store::Store& store) { return store.remove_record(kKind, id); });
}

Task<Previews::Opened> Previews::open(std::string sandbox_id, std::uint16_t port,
                                      std::string link_secret) {
  const auto [id, secret] = split_credential(link_secret);
  const auto found = previews_.find(id);
  if (found == previews_.end() || found->second.sandbox_id != sandbox_id ||
      found->second.port != port || !is_valid(found->second) ||
      !opens(secret, found->second.link_sha256)) {
    co_return fail(Code::kUnauthenticated,
                   "this link to a preview was used already, has expired or was taken back");
  }
  Opened opened{.preview = found->second};
  const std::string cookie = random_hex(48);
  opened.preview.link_sha256.clear();
  opened.preview.cookie_sha256 = sha256(cookie);
  opened.cookie = concat(opened.preview.id, ".", cookie);
  CO_TRY_DO(co_await write(opened.preview));
  co_return std::move(opened);
}

Task<> Previews::wake(std::string team_id, std::string sandbox_id) {
  CO_TRY(const Sandbox before, sandboxes_.get(team_id, sandbox_id));
  if (before.status != SandboxStatus::kPaused || !before.auto_resume) {
    co_return ok();
  }
  CO_TRY(const auto resumed, co_await sandboxes_.resume(team_id, sandbox_id));
  const std::int64_t generation = resumed.sandbox.generation;
  if (resumed.restored != ResumeAnswer::Restored::kMemory || generation != before.generation + 1) {
    co_return ok();
  }
  std::vector<std::string> kept;
  for (auto& [id, preview] : previews_) {
    if (preview.sandbox_id == sandbox_id && preview.generation == before.generation) {
      preview.generation = generation;
      kept.push_back(id);
    }
  }
  for (const std::string& id : kept) {
    // Meanwhile it may have been taken back.
    if (const auto found = previews_.find(id); found != previews_.end()) {
      CO_TRY_DO(co_await write(found->second));
    }
  }
  co_return ok();
}

std::optional<Preview> Previews::find(std::string_view sandbox_id, std::uint16_t port,
                                      std::string_view credential) const {
  const auto [id, secret] = split_credential(credential);
  const auto found = previews_.find(id);
  if (found == previews_.end() || found->second.sandbox_id != sandbox_id ||
      found->second.port != port || !is_valid(found->second) ||
      (!opens(secret, found->second.cookie_sha256) && !opens(secret, found->second.token_sha256))) {
    return std::nullopt;
  }
  return found->second;
}

}  // namespace atl::control
