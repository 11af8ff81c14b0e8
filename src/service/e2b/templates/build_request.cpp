#include "service/e2b/templates/build_request.h"

#include <array>

#include "base/strings.h"
#include "service/e2b/lenient_fields.h"

namespace atl::service::e2b {
namespace {

constexpr std::size_t kMaxSteps = 500;

// Images that the packages name when nobody chose one: templates of this server.
struct KnownImage {
  std::string_view image;
  std::string_view template_name;
};
constexpr std::array kKnownImages{KnownImage{"e2bdev/base", "base"},
                                  KnownImage{"e2bdev/code-interpreter", "code-interpreter-v1"},
                                  KnownImage{"e2bdev/desktop", "desktop"}};

std::string_view known_template(std::string_view image) {
  constexpr std::string_view kLatest = ":latest";
  constexpr std::string_view kHub = "docker.io/";
  if (image.ends_with(kLatest)) {
    image.remove_suffix(kLatest.size());
  }
  if (image.starts_with(kHub)) {
    image.remove_prefix(kHub.size());
  }
  for (const KnownImage& known : kKnownImages) {
    if (known.image == image) {
      return known.template_name;
    }
  }
  return {};
}

Result<std::optional<oci::RegistryLogin>> parse_registry(const Json* value) {
  if (value == nullptr || value->is_null()) {
    return std::nullopt;
  }
  TRY(const auto fields,
      LenientFields::of(*value, "fromImageRegistry",
                        {"type", "username", "password", "awsAccessKeyId", "awsSecretAccessKey",
                         "awsRegion", "serviceAccountJson"}));
  TRY(const std::string type, fields->required_string("type"));
  if (type == "registry") {
    TRY(std::string username, fields->required_string("username"));
    TRY(std::string password, fields->required_string("password"));
    return oci::RegistryLogin{std::move(username), Secret{std::move(password)}};
  }
  if (type == "gcp") {
    TRY(std::string account, fields->required_string("serviceAccountJson"));
    return oci::RegistryLogin{"_json_key", Secret{std::move(account)}};
  }
  if (type == "aws") {
    return fail(Code::kInvalidArgument,
                "keys of AWS are not exchanged for a registry's password here; give the user AWS "
                "and what `aws ecr get-login-password` says as credentials of type \"registry\"");
  }
  return fail(Code::kInvalidArgument,
              concat("fromImageRegistry.type \"", to_valid_utf8(type), "\" is not known"));
}

Result<std::vector<control::BuildStep>> parse_steps(const Json* list) {
  std::vector<control::BuildStep> steps;
  if (list == nullptr || list->is_null()) {
    return steps;
  }
  if (list->as_array() == nullptr || list->as_array()->size() > kMaxSteps) {
    return fail(Code::kInvalidArgument, concat("steps must be a list of at most ", kMaxSteps));
  }
  for (const Json& each : *list->as_array()) {
    TRY(const auto fields, LenientFields::of(each, concat("steps[", steps.size(), "]"),
                                             {"type", "args", "force", "filesHash"}));
    TRY(const std::string type, fields->required_string("type"));
    TRY(auto arguments, fields->strings("args"));
    TRY(control::BuildStep step, control::make_step(type, std::move(arguments)));
    TRY(const auto force, fields->boolean("force"));
    TRY(const auto hash, fields->string("filesHash"));
    step.force = force.value_or(false);
    step.files_hash = hash.value_or("");
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace

Result<control::StepsBuild> parse_build_start(const Json& body) {
  TRY(const auto fields,
      LenientFields::of(body, "", {"fromImage", "fromTemplate", "startCmd", "readyCmd", "force"}));
  control::StepsBuild build;
  TRY(const auto image, fields->string("fromImage"));
  TRY(const auto base, fields->string("fromTemplate"));
  if (image.value_or("").empty() == base.value_or("").empty()) {
    return fail(Code::kInvalidArgument, "one of fromImage and fromTemplate is needed");
  }
  build.from_template = !base.value_or("").empty();
  build.from = build.from_template ? *base : *image;
  TRY(build.pull.login, parse_registry(body.find("fromImageRegistry")));
  if (const auto known = known_template(build.from);
      !build.from_template && !build.pull.login && !known.empty()) {
    build.from_template = true;
    build.from = known;
  }
  TRY(build.start_command, fields->string("startCmd"));
  TRY(build.ready_command, fields->string("readyCmd"));
  TRY(const auto force, fields->boolean("force"));
  build.force = force.value_or(false);
  TRY(build.steps, parse_steps(body.find("steps")));
  return build;
}

}  // namespace atl::service::e2b
