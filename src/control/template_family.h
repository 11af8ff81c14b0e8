// A template as those know it who build it again and again: one id and alias, many builds, tags
// that name some of them. Each build that is ready is a template of ours (templates.h). Values, and
// their JSON in the store.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"

namespace atl::control {

enum class BuildStatus : std::uint8_t { kWaiting, kBuilding, kReady, kError };
std::string_view build_status_name(BuildStatus status);

struct FamilyBuild {
  std::string id;  // a UUID
  BuildStatus status = BuildStatus::kWaiting;
  std::vector<std::string> tags;  // it gets when it is ready
  std::string template_name;      // of ours; empty: not begun
  std::int64_t cpu_count = 0;     // 0: the server's default
  std::int64_t memory_mb = 0;
  std::string failure;  // why the status is kError
  std::string failed_step;
  UnixMillis created_at = 0;
  UnixMillis updated_at = 0;
  std::optional<UnixMillis> finished_at;
};

struct FamilyTag {
  std::string tag;
  std::string build_id;
  UnixMillis created_at = 0;
};

struct TemplateFamily {
  std::string id;  // 20 of a-z, 0-9
  std::string team_id;
  std::string alias;
  bool is_public = false;    // other teams may make sandboxes of it
  bool deleted = false;      // goes once no sandbox needs its templates
  std::int64_t version = 0;  // of its record
  UnixMillis created_at = 0;
  UnixMillis updated_at = 0;
  std::vector<FamilyBuild> builds;  // oldest first
  std::vector<FamilyTag> tags;

  const FamilyBuild* build(std::string_view build_id) const;
  FamilyBuild* build(std::string_view build_id);
  const FamilyTag* tag(std::string_view name) const;
  bool is_tagged(std::string_view build_id) const;
  // The build that the tag names, or that is named itself; an empty one means the default tag.
  // Null: there is none, or it is not ready.
  const FamilyBuild* choose(std::string_view tag) const;
  const FamilyBuild* newest_ready() const;
  // Ready, and its tags are its own now; unless there is a failure. REQUIRES: `build` is of ours.
  void end_build(FamilyBuild& build, std::string failure, UnixMillis now);
  void set_tag(const std::string& name, const std::string& build_id, UnixMillis now);
};

Json to_json(const TemplateFamily& family);
// Our own JSON back.
Result<TemplateFamily> family_from_json(const Json& json);

}  // namespace atl::control
