#include "service/e2b/sandboxes/new_sandbox.h"

#include "base/strings.h"
#include "service/e2b/lenient_fields.h"

namespace atl::service::e2b {
namespace {

// Identities for workloads take an issuer that this server has not got.
Result<> check_iam(const Json& body) {
  const Json* iam = body.find("iam");
  const Json* tokens = iam == nullptr ? nullptr : iam->find("tokens");
  if (tokens == nullptr || tokens->as_object() == nullptr || tokens->as_object()->empty()) {
    return {};
  }
  constexpr std::size_t kMaxTokens = 5;
  if (tokens->as_object()->size() > kMaxTokens) {
    return fail(Code::kInvalidArgument, concat("iam.tokens has at most ", kMaxTokens, " entries"));
  }
  for (const auto& [name, token] : *tokens->as_object()) {
    const Json* type = token.find("tokenType");
    if (type == nullptr || type->as_string() == nullptr || *type->as_string() != "JWT-SVID") {
      return fail(Code::kInvalidArgument,
                  concat("iam.tokens.", to_valid_utf8(name), ".tokenType must be JWT-SVID"));
    }
  }
  return fail(Code::kInvalidArgument, "iam.tokens: this server issues no identity tokens");
}

struct Lifecycle {
  bool auto_pause = false;
  bool with_memory = true;
  bool auto_resume = false;
};

Result<Lifecycle> parse_lifecycle(const Fields& fields, const Json& body) {
  Lifecycle lifecycle;
  TRY(const auto auto_pause, fields.boolean("autoPause"));
  TRY(const auto with_memory, fields.boolean("autoPauseMemory"));
  if (const Json* resume = body.find("autoResume")) {
    TRY(const auto config, LenientFields::of(*resume, "autoResume", {"enabled"}));
    TRY(const auto enabled, config->boolean("enabled"));
    lifecycle.auto_resume = enabled.value_or(false);
  }
  lifecycle.auto_pause = auto_pause.value_or(false);
  lifecycle.with_memory = with_memory.value_or(true);
  if (!lifecycle.with_memory && !lifecycle.auto_pause) {
    return fail(Code::kInvalidArgument, "autoPauseMemory: false needs autoPause: true");
  }
  if (!lifecycle.with_memory && lifecycle.auto_resume) {
    return fail(Code::kInvalidArgument,
                "autoPauseMemory: false does not go with autoResume: traffic resumes memory only");
  }
  return lifecycle;
}

}  // namespace

Result<> check_timeout(std::int64_t seconds) {
  if (seconds <= 0 || seconds > kMaxTimeoutSeconds) {
    return fail(Code::kInvalidArgument, concat("timeout is ", seconds, " seconds; it must be from ",
                                               "1 to ", kMaxTimeoutSeconds));
  }
  return {};
}

Result<NewSandbox> parse_new_sandbox(const Json& body, CreateVersion version) {
  TRY(const auto fields, LenientFields::of(body, "",
                                           {"templateID", "timeout", "autoPause", "autoPauseMemory",
                                            "secure", "metadata", "envVars"}));
  NewSandbox made;
  TRY(made.asked_template, fields->required_string("templateID"));
  if (made.asked_template.empty()) {
    return fail(Code::kInvalidArgument, "templateID is empty");
  }
  const bool v1 = version == CreateVersion::kV1;
  TRY(const auto timeout, fields->integer("timeout", INT64_MIN, INT64_MAX));
  const std::int64_t seconds = timeout.value_or(v1 ? kShortTimeoutSeconds : kDefaultTimeoutSeconds);
  TRY_DO(check_timeout(seconds));
  TRY(const Lifecycle lifecycle, parse_lifecycle(*fields, body));
  TRY(const auto secure, fields->boolean("secure"));
  TRY(auto metadata, fields->string_map("metadata"));
  TRY(auto env, fields->string_map("envVars"));
  TRY_DO(check_iam(body));
  made.terms.timeout_seconds = seconds;
  made.terms.ttl_end = !lifecycle.auto_pause   ? control::TtlEnd::kDelete
                       : lifecycle.with_memory ? control::TtlEnd::kPause
                                               : control::TtlEnd::kPauseDisk;
  made.terms.auto_resume = lifecycle.auto_resume;
  made.terms.secure = !v1 || secure.value_or(false);
  made.terms.asked_template = made.asked_template;
  made.claim.id_style = control::IdStyle::kPlain;
  made.claim.ttl_seconds = seconds;
  made.claim.auto_resume = lifecycle.auto_resume;
  made.claim.labels = std::move(metadata);
  made.claim.env = std::move(env);
  made.has_mcp = body.find("mcp") != nullptr;
  return made;
}

}  // namespace atl::service::e2b
