#include "control/template_family.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "control/template_title.h"

namespace atl::control {
namespace {

constexpr std::array<std::string_view, 4> kStatusNames{"waiting", "building", "ready", "error"};

std::string text_of(const Json& json, std::string_view name) {
  const Json* value = json.find(name);
  return value != nullptr && value->as_string() != nullptr ? *value->as_string() : std::string{};
}

std::int64_t number_of(const Json& json, std::string_view name) {
  const Json* value = json.find(name);
  return value != nullptr && value->as_integer() != nullptr ? *value->as_integer() : 0;
}

bool flag_of(const Json& json, std::string_view name) {
  const Json* value = json.find(name);
  return value != nullptr && value->as_bool() != nullptr && *value->as_bool();
}

const Json::Array& list_of(const Json& json, std::string_view name) {
  static const Json::Array kNone;
  const Json* value = json.find(name);
  return value != nullptr && value->as_array() != nullptr ? *value->as_array() : kNone;
}

Json to_json(const FamilyBuild& build) {
  Json tags = Json::array();
  for (const std::string& tag : build.tags) {
    tags.push(tag);
  }
  Json json = Json::object({{"id", build.id},
                            {"status", build_status_name(build.status)},
                            {"tags", std::move(tags)},
                            {"template", build.template_name},
                            {"cpu_count", build.cpu_count},
                            {"memory_mb", build.memory_mb},
                            {"failure", build.failure},
                            {"failed_step", build.failed_step},
                            {"created_at", build.created_at},
                            {"updated_at", build.updated_at}});
  if (build.finished_at) {
    json.set("finished_at", *build.finished_at);
  }
  return json;
}

Result<FamilyBuild> build_from_json(const Json& json) {
  FamilyBuild build{.id = text_of(json, "id"),
                    .template_name = text_of(json, "template"),
                    .cpu_count = number_of(json, "cpu_count"),
                    .memory_mb = number_of(json, "memory_mb"),
                    .failure = text_of(json, "failure"),
                    .failed_step = text_of(json, "failed_step"),
                    .created_at = number_of(json, "created_at"),
                    .updated_at = number_of(json, "updated_at")};
  const auto* const status = std::ranges::find(kStatusNames, text_of(json, "status"));
  if (status == kStatusNames.end() || !is_uuid(build.id)) {
    return fail(Code::kDataLoss, "a build that nobody wrote like this");
  }
  build.status = static_cast<BuildStatus>(status - kStatusNames.begin());
  for (const Json& tag : list_of(json, "tags")) {
    if (tag.as_string() != nullptr) {
      build.tags.push_back(*tag.as_string());
    }
  }
  if (json.find("finished_at") != nullptr) {
    build.finished_at = number_of(json, "finished_at");
  }
  return build;
}

}  // namespace

std::string_view build_status_name(BuildStatus status) {
  return kStatusNames.at(static_cast<std::size_t>(status));
}

const FamilyBuild* TemplateFamily::build(std::string_view build_id) const {
  const auto found = std::ranges::find(builds, build_id, &FamilyBuild::id);
  return found == builds.end() ? nullptr : &*found;
}

FamilyBuild* TemplateFamily::build(std::string_view build_id) {
  const auto found = std::ranges::find(builds, build_id, &FamilyBuild::id);
  return found == builds.end() ? nullptr : &*found;
}

const FamilyTag* TemplateFamily::tag(std::string_view name) const {
  const auto found = std::ranges::find(tags, name, &FamilyTag::tag);
  return found == tags.end() ? nullptr : &*found;
}

bool TemplateFamily::is_tagged(std::string_view build_id) const {
  return std::ranges::find(tags, build_id, &FamilyTag::build_id) != tags.end();
}

const FamilyBuild* TemplateFamily::choose(std::string_view name) const {
  const FamilyBuild* found = build(name);
  if (found == nullptr) {
    const FamilyTag* const named = tag(name.empty() ? kDefaultTag : name);
    found = named == nullptr ? nullptr : build(named->build_id);
  }
  return found != nullptr && found->status == BuildStatus::kReady ? found : nullptr;
}

const FamilyBuild* TemplateFamily::newest_ready() const {
  for (auto at = builds.rbegin(); at != builds.rend(); ++at) {
    if (at->status == BuildStatus::kReady) {
      return &*at;
    }
  }
  return nullptr;
}

void TemplateFamily::end_build(FamilyBuild& build, std::string failure, UnixMillis now) {
  build.status = failure.empty() ? BuildStatus::kReady : BuildStatus::kError;
  build.failure = std::move(failure);
  build.updated_at = now;
  build.finished_at = now;
  if (build.status == BuildStatus::kReady && !deleted) {
    for (const std::string& tag : build.tags) {
      set_tag(tag, build.id, now);
    }
  }
}

void TemplateFamily::set_tag(const std::string& name, const std::string& build_id, UnixMillis now) {
  std::erase_if(tags, [&](const FamilyTag& each) { return each.tag == name; });
  tags.push_back({name, build_id, now});
}

Json to_json(const TemplateFamily& family) {
  Json builds = Json::array();
  for (const FamilyBuild& build : family.builds) {
    builds.push(to_json(build));
  }
  Json tags = Json::array();
  for (const FamilyTag& tag : family.tags) {
    tags.push(
        Json::object({{"tag", tag.tag}, {"build", tag.build_id}, {"created_at", tag.created_at}}));
  }
  return Json::object({{"alias", family.alias},
                       {"public", family.is_public},
                       {"deleted", family.deleted},
                       {"builds", std::move(builds)},
                       {"tags", std::move(tags)}});
}

Result<TemplateFamily> family_from_json(const Json& json) {
  TemplateFamily family{.alias = text_of(json, "alias"),
                        .is_public = flag_of(json, "public"),
                        .deleted = flag_of(json, "deleted")};
  for (const Json& build : list_of(json, "builds")) {
    TRY(family.builds.emplace_back(), build_from_json(build));
  }
  for (const Json& tag : list_of(json, "tags")) {
    family.tags.push_back(
        {text_of(tag, "tag"), text_of(tag, "build"), number_of(tag, "created_at")});
  }
  return family;
}

}  // namespace atl::control
