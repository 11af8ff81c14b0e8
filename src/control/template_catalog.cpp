#include "control/template_catalog.h"

#include <algorithm>

#include "base/log.h"
#include "base/random.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

constexpr int kMaxWriteTries = 8;

std::unexpected<Error> no_such_template(std::string_view name) {
  return fail(Code::kNotFound, concat("template '", to_valid_utf8(name), "' not found"),
              "template_not_found");
}

}  // namespace

Task<> TemplateCatalog::start() {
  CO_TRY(const auto records, co_await parts_.store.run([](store::Store& store) {
    return store.list_records(kTemplateFamilyKind);
  }));
  for (const store::Record& record : records) {
    const auto json = Json::parse(record.body);
    auto family = json ? family_from_json(*json) : Result<TemplateFamily>{fail(json.error())};
    if (!family) {
      LOG_ERROR("the builds of a template cannot be read", {"template", record.id},
                {"error", family.error()});
      continue;
    }
    family->id = record.id;
    family->team_id = record.team_id;
    family->version = record.version;
    family->created_at = record.created_at;
    family->updated_at = record.updated_at;
    keep(*std::move(family));
  }
  std::vector<std::string> ids;
  ids.reserve(families_.size());
  for (const auto& [id, family] : families_) {
    ids.push_back(id);
  }
  for (const std::string& id : ids) {
    const UnixMillis now = parts_.clock.now();
    CO_TRY_DO(co_await change(id, [this, now](TemplateFamily& family) -> Result<> {
      for (FamilyBuild& build : family.builds) {
        if (build.status != BuildStatus::kBuilding) {
          continue;
        }
        // Its template may have been told of the end before this record was.
        const auto row = parts_.sandboxes.templates().find(build.template_name, family.team_id);
        family.end_build(build,
                         row && row->state == TemplateState::kReady
                             ? ""
                             : "the server stopped while it was being built; build it again",
                         now);
      }
      return {};
    }));
    CO_TRY_DO(co_await tidy(id));
  }
  co_return ok();
}

// --- records ---------------------------------------------------------------------------------

void TemplateCatalog::keep(TemplateFamily family) {
  if (const auto before = families_.find(family.id); before != families_.end()) {
    for (const FamilyBuild& build : before->second->builds) {
      by_template_.erase(build.template_name);
    }
  }
  for (const FamilyBuild& build : family.builds) {
    if (!build.template_name.empty()) {
      by_template_.insert_or_assign(build.template_name, family.id);
      parts_.sandboxes.changeable_templates().share(build.template_name,
                                                    family.is_public && !family.deleted);
    }
  }
  std::string id = family.id;
  families_.insert_or_assign(std::move(id), std::make_shared<TemplateFamily>(std::move(family)));
}

Task<> TemplateCatalog::write(TemplateFamily family) {
  family.updated_at = parts_.clock.now();
  const store::Record record{.kind = kTemplateFamilyKind,
                             .id = family.id,
                             .team_id = family.team_id,
                             .version = family.version + 1,
                             .body = to_json(family).dump(),
                             .created_at = family.created_at,
                             .updated_at = family.updated_at};
  const std::int64_t expected = family.version;
  CO_TRY_DO(co_await parts_.store.run(
      [&](store::Store& store) { return store.put_record(record, expected); }));
  ++family.version;
  keep(std::move(family));
  co_return ok();
}

// Somebody else may write meanwhile; then what they wrote is changed.
Task<FamilyPointer> TemplateCatalog::change(std::string id, Change change) {
  for (int tries = 1;; ++tries) {
    const auto found = families_.find(id);
    if (found == families_.end()) {
      co_return no_such_template(id);
    }
    TemplateFamily next = *found->second;
    CO_TRY_DO(change(next));
    if (to_json(next).dump() == to_json(*found->second).dump()) {
      co_return found->second;
    }
    auto written = co_await shielded(write(std::move(next)));
    if (written) {
      co_return families_.at(id);
    }
    if (written.error().reason != "changed" || tries == kMaxWriteTries) {
      co_return fail(std::move(written).error().note("recording the template"));
    }
  }
}

// --- names -----------------------------------------------------------------------------------

FamilyPointer TemplateCatalog::named(std::string_view team_id, std::string_view alias) const {
  for (const auto& [id, family] : families_) {
    if (!family->deleted && family->team_id == team_id && family->alias == alias) {
      return family;
    }
  }
  return nullptr;
}

FamilyPointer TemplateCatalog::look_up(std::string_view team_id, const TemplateTitle& title) const {
  const std::string_view owner = title.space.empty() ? team_id : std::string_view{title.space};
  FamilyPointer found = named(owner, title.alias);
  if (found == nullptr && title.space.empty()) {
    const auto by_id = families_.find(title.alias);
    found = by_id == families_.end() || by_id->second->deleted ? nullptr : by_id->second;
  }
  return found != nullptr && (found->team_id == team_id || found->is_public) ? found : nullptr;
}

Result<FamilyPointer> TemplateCatalog::find(std::string_view team_id, std::string_view name) const {
  TRY(const TemplateTitle title, parse_title(name));
  FamilyPointer found = look_up(team_id, title);
  if (found == nullptr) {
    return no_such_template(name);
  }
  return found;
}

Result<FamilyPointer> TemplateCatalog::own(std::string_view team_id, std::string_view name) const {
  TRY(FamilyPointer found, find(team_id, name));
  if (found->team_id != team_id) {
    return fail(Code::kPermissionDenied,
                concat("template '", to_valid_utf8(name), "' is of another team"));
  }
  return found;
}

Result<TemplateChoice> TemplateCatalog::choose(std::string_view team_id,
                                               std::string_view name) const {
  TRY(const TemplateTitle title, parse_title(name));
  const FamilyPointer family = look_up(team_id, title);
  if (family == nullptr) {
    return choose_plain(team_id, title);
  }
  const FamilyBuild* build = family->choose(title.tag);
  if (build == nullptr && title.tag.empty() && title.alias == family->id) {
    build = family->newest_ready();  // whoever has an id means what was built
  }
  if (build == nullptr) {
    return fail(Code::kNotFound,
                concat("template '", to_valid_utf8(name), "' has no build with the tag '",
                       title.tag.empty() ? kDefaultTag : std::string_view{title.tag}, "'"),
                "template_not_found");
  }
  return TemplateChoice{build->template_name, family, build->id};
}

// Those that were never built here: of the server, or made by the native API. Their id is derived
// from their name.
Result<TemplateChoice> TemplateCatalog::choose_plain(std::string_view team_id,
                                                     const TemplateTitle& title) const {
  const bool tagged = !title.tag.empty() && title.tag != kDefaultTag;
  const bool mine = title.space.empty() || title.space == team_id;
  if (!tagged && mine) {
    const Templates& templates = parts_.sandboxes.templates();
    if (const auto row = templates.find(title.alias, team_id)) {
      return TemplateChoice{row->name, nullptr, ""};
    }
    if (title.alias.size() == kTemplateIdBytes) {
      for (const Template& row : templates.all()) {
        if (derived_template_id(row.name) == title.alias && templates.find(row.name, team_id)) {
          return TemplateChoice{row.name, nullptr, ""};
        }
      }
    }
  }
  return no_such_template(concat(title.space.empty() ? "" : title.space + "/", title.alias,
                                 title.tag.empty() ? "" : ":", title.tag));
}

FamilyPointer TemplateCatalog::family_of(std::string_view template_name) const {
  const auto found = by_template_.find(template_name);
  return found == by_template_.end() ? nullptr : families_.at(found->second);
}

std::vector<FamilyPointer> TemplateCatalog::list(std::string_view team_id) const {
  std::vector<FamilyPointer> found;
  for (const auto& [id, family] : families_) {
    if (!family->deleted && family->team_id == team_id) {
      found.push_back(family);
    }
  }
  std::ranges::sort(found, [](const FamilyPointer& a, const FamilyPointer& b) {
    return std::pair{a->created_at, a->id} > std::pair{b->created_at, b->id};
  });
  return found;
}

// --- tags and visibility ---------------------------------------------------------------------

Task<FamilyPointer> TemplateCatalog::set_public(std::string team_id, std::string name,
                                                bool is_public) {
  CO_TRY(const FamilyPointer family, own(team_id, name));
  co_return co_await change(family->id, [is_public](TemplateFamily& next) -> Result<> {
    next.is_public = is_public;
    return {};
  });
}

Task<std::string> TemplateCatalog::assign_tags(std::string team_id, std::string target,
                                               std::vector<std::string> tags) {
  CO_TRY(const FamilyPointer family, own(team_id, target));
  CO_TRY(const TemplateChoice choice, choose(team_id, target));
  for (std::string& tag : tags) {
    CO_TRY(tag, parse_tag(tag));
  }
  const UnixMillis now = parts_.clock.now();
  CO_TRY_DO(co_await change(family->id, [&](TemplateFamily& next) -> Result<> {
    for (const std::string& tag : tags) {
      next.set_tag(tag, choice.build_id, now);
    }
    return next.tags.size() <= kMaxTagsPerTemplate
               ? Result<>{}
               : Result<>{fail(Code::kResourceExhausted,
                               concat("a template has at most ", kMaxTagsPerTemplate, " tags"))};
  }));
  co_return choice.build_id;
}

Task<> TemplateCatalog::remove_tags(std::string team_id, std::string name,
                                    std::vector<std::string> tags) {
  CO_TRY(const FamilyPointer family, own(team_id, name));
  for (std::string& tag : tags) {
    CO_TRY(tag, parse_tag(tag));
    if (tag == kDefaultTag) {
      co_return fail(Code::kInvalidArgument, "the tag 'default' cannot be removed");
    }
    if (family->tag(tag) == nullptr) {
      co_return fail(Code::kNotFound,
                     concat("template '", family->alias, "' has no tag '", tag, "'"));
    }
  }
  CO_TRY_DO(co_await change(family->id, [&tags](TemplateFamily& next) -> Result<> {
    std::erase_if(next.tags, [&tags](const FamilyTag& each) {
      return std::ranges::find(tags, each.tag) != tags.end();
    });
    return {};
  }));
  co_return co_await tidy(family->id);
}

Task<> TemplateCatalog::remove(std::string team_id, std::string name) {
  CO_TRY(const FamilyPointer family, own(team_id, name));
  for (const FamilyBuild& build : family->builds) {
    if (build.status == BuildStatus::kBuilding) {
      parts_.jobs.cancel(build.template_name);
    }
  }
  CO_TRY_DO(co_await change(family->id, [](TemplateFamily& next) -> Result<> {
    next.deleted = true;
    next.tags.clear();
    return {};
  }));
  LOG_INFO("template deleted", {"template", family->id}, {"alias", family->alias});
  co_return co_await tidy(family->id);
}

}  // namespace atl::control
