// The builds of templates: from the request to the shelf, and off it again.
#include <algorithm>

#include "base/log.h"
#include "base/random.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"
#include "control/resources.h"
#include "control/template_catalog.h"

namespace atl::control {
namespace {

constexpr std::size_t kMaxAliasInName = 40;
constexpr std::size_t kKeptBuilds = 5;  // that are done and have no tag
constexpr Duration kTidyInterval = std::chrono::minutes{1};

Task<> wait_for(Event& event) {
  co_return co_await event.wait();
}

ResourceRequest resources_of(std::int64_t cpu_count, std::int64_t memory_mb) {
  ResourceRequest resources;
  if (cpu_count > 0) {
    resources.cpu = std::to_string(cpu_count);
  }
  if (memory_mb > 0) {
    resources.memory = concat(memory_mb, "Mi");
  }
  return resources;
}

Json spec_of(const TemplateFamily& family, const FamilyBuild& build) {
  Json resources = Json::object();
  const ResourceRequest asked = resources_of(build.cpu_count, build.memory_mb);
  if (asked.cpu) {
    resources.set("cpu", *asked.cpu);
  }
  if (asked.memory) {
    resources.set("memory", *asked.memory);
  }
  return Json::object({{"displayName", family.alias},
                       {"mainContainer", Json::object({{"resources", std::move(resources)}})}});
}

// "my-app.3f2a9c01aabb": for those who see our templates by their names.
std::string name_of(const TemplateFamily& family, std::string_view build_id) {
  std::string name = family.alias.substr(0, kMaxAliasInName);
  if (name.starts_with('-') || name.starts_with('_')) {
    name.front() = 't';
  }
  std::string digits{build_id};
  std::erase(digits, '-');
  return concat(name, ".", digits.substr(0, 12));
}

bool is_done(const FamilyBuild& build) {
  return build.status == BuildStatus::kReady || build.status == BuildStatus::kError;
}

}  // namespace

Result<> TemplateCatalog::check_new(const NewBuild& request, const TemplateTitle& title) const {
  if (!title.space.empty() && title.space != request.team_id) {
    return fail(Code::kPermissionDenied,
                concat("the namespace '", title.space, "' is of another team"));
  }
  if (const auto row = parts_.sandboxes.templates().find(title.alias, request.team_id);
      row && row->builtin) {
    return fail(Code::kPermissionDenied,
                concat("the name '", title.alias, "' is taken by a template of this server"));
  }
  if (request.tags.size() > kMaxTagsPerTemplate || is_uuid(title.tag)) {
    return fail(Code::kInvalidArgument, concat("use at most ", kMaxTagsPerTemplate,
                                               " tags, and none that is a build's id"));
  }
  TRY_DO(decide_limits(host_resource_policy(), resources_of(request.cpu_count, request.memory_mb)));
  if (named(request.team_id, title.alias) == nullptr &&
      list(request.team_id).size() >= kMaxFamiliesPerTeam) {
    return fail(Code::kResourceExhausted,
                concat("a team has at most ", kMaxFamiliesPerTeam, " templates; delete some first"),
                "quota_exceeded");
  }
  return {};
}

Task<RequestedBuild> TemplateCatalog::request_build(NewBuild request) {
  CO_TRY(const TemplateTitle title, parse_title(request.name));
  CO_TRY_DO(check_new(request, title));
  untidy_.set();
  const UnixMillis now = parts_.clock.now();
  FamilyBuild build{.id = random_uuid(),
                    .cpu_count = request.cpu_count,
                    .memory_mb = request.memory_mb,
                    .created_at = now,
                    .updated_at = now};
  if (!title.tag.empty()) {
    build.tags.push_back(title.tag);
  }
  for (const std::string& text : request.tags) {
    CO_TRY(std::string tag, parse_tag(text));
    if (std::ranges::find(build.tags, tag) == build.tags.end()) {
      build.tags.push_back(std::move(tag));
    }
  }
  if (build.tags.empty()) {
    build.tags.emplace_back(kDefaultTag);
  }
  FamilyPointer family = named(request.team_id, title.alias);
  if (family == nullptr) {
    TemplateFamily made{.id = random_label(kTemplateIdBytes),
                        .team_id = request.team_id,
                        .alias = title.alias,
                        .created_at = now};
    const std::string id = made.id;
    made.builds.push_back(build);
    // Nobody else gets the alias meanwhile: it is kept before it is written.
    keep(made);
    if (auto written = co_await shielded(write(std::move(made))); !written) {
      families_.erase(id);
      co_return fail(std::move(written).error().note("recording the template"));
    }
    co_return RequestedBuild{families_.at(id), build.id};
  }
  CO_TRY(family, co_await change(family->id, [&build](TemplateFamily& next) -> Result<> {
           const auto waiting =
               std::ranges::count(next.builds, BuildStatus::kWaiting, &FamilyBuild::status);
           if (waiting >= static_cast<std::ptrdiff_t>(kMaxWaitingBuilds)) {
             // The client never came back for it.
             next.builds.erase(
                 std::ranges::find(next.builds, BuildStatus::kWaiting, &FamilyBuild::status));
           }
           next.builds.push_back(build);
           return {};
         }));
  co_return RequestedBuild{family, build.id};
}

Task<> TemplateCatalog::begin_build(std::string team_id, std::string template_id,
                                    std::string build_id, StepsBuild request) {
  return shielded(begin_now(std::move(team_id), std::move(template_id), std::move(build_id),
                            std::move(request)));
}

Task<> TemplateCatalog::begin_now(std::string team_id, std::string template_id,
                                  std::string build_id, StepsBuild request) {
  CO_TRY(FamilyPointer family, own(team_id, template_id));
  CO_TRY_DO(parts_.jobs.check_room(team_id));  // before another build is cancelled for this one
  if (request.from_template) {
    CO_TRY(const TemplateChoice base, choose(team_id, request.from));
    request.from = base.template_name;
  }
  const UnixMillis now = parts_.clock.now();
  std::vector<std::string> others;
  CO_TRY(family, co_await change(family->id, [&](TemplateFamily& next) -> Result<> {
           FamilyBuild* const build = next.build(build_id);
           if (build == nullptr) {
             return fail(Code::kNotFound,
                         concat("template '", next.id, "' has no build ", build_id));
           }
           if (build->status != BuildStatus::kWaiting) {
             return fail(Code::kInvalidArgument,
                         concat("the build is ", build_status_name(build->status),
                                " and not waiting to be started"));
           }
           others.clear();
           for (const FamilyBuild& other : next.builds) {
             if (other.status == BuildStatus::kBuilding) {
               others.push_back(other.template_name);
             }
           }
           build->status = BuildStatus::kBuilding;
           build->template_name = name_of(next, build_id);
           build->updated_at = now;
           return {};
         }));
  for (const std::string& other : others) {
    parts_.jobs.cancel(other);
  }
  auto begun = co_await begin_job(family, *family->build(build_id), std::move(request));
  if (!begun && begun.error().code == Code::kUnavailable) {
    // There are too many at the moment: it may be started again.
    auto changed = co_await change(family->id, [&](TemplateFamily& next) -> Result<> {
      if (FamilyBuild* const build = next.build(build_id); build != nullptr) {
        build->status = BuildStatus::kWaiting;
        build->template_name.clear();
      }
      return {};
    });
    if (!changed) {
      (void)co_await finish(family->id, build_id, fail(begun.error()), "base");
    }
  } else if (!begun) {
    (void)co_await finish(family->id, build_id, fail(begun.error()), "base");
  }
  (void)co_await tidy(family->id);
  co_return std::move(begun);
}

Task<> TemplateCatalog::begin_job(FamilyPointer family, const FamilyBuild& build,
                                  StepsBuild request) {
  const std::string id = family->id;
  const std::string build_id = build.id;
  const TemplateRef ref{family->team_id, build.template_name};
  CO_TRY_DO(co_await parts_.jobs.build_steps(
      ref, spec_of(*family, build), std::move(request),
      [this, id, build_id](Result<> outcome, std::string step) {
        return finish(id, build_id, std::move(outcome), std::move(step));
      }));
  co_return ok();
}

Task<> TemplateCatalog::finish(std::string id, std::string build_id, Result<> outcome,
                               std::string step) {
  const UnixMillis now = parts_.clock.now();
  auto changed = co_await change(id, [&](TemplateFamily& next) -> Result<> {
    FamilyBuild* const build = next.build(build_id);
    if (build == nullptr) {
      return {};
    }
    build->failed_step = outcome ? "" : step;
    const std::string failure = outcome ? "" : outcome.error().message;
    next.end_build(*build, outcome || !failure.empty() ? failure : "it failed", now);
    return {};
  });
  if (!changed) {
    LOG_ERROR("the end of a build is not recorded", {"template", id}, {"build", build_id},
              {"error", changed.error()});
  }
  co_return ok();
}

// Builds that may go: done, without a tag, and not among the newest.
std::vector<std::string> TemplateCatalog::superfluous(const TemplateFamily& family) {
  std::vector<std::string> out;
  std::size_t kept = 0;
  for (auto at = family.builds.rbegin(); at != family.builds.rend(); ++at) {
    if (family.deleted ? at->status != BuildStatus::kBuilding
                       : is_done(*at) && !family.is_tagged(at->id) && ++kept > kKeptBuilds) {
      out.push_back(at->id);
    }
  }
  return out;
}

Task<> TemplateCatalog::run() {
  for (;;) {
    untidy_.clear();
    std::vector<std::string> ids;
    for (const auto& [id, family] : families_) {
      if (family->deleted) {
        ids.push_back(id);
      }
    }
    for (const std::string& id : ids) {
      CO_TRY_DO(co_await tidy(id));
    }
    auto waited = co_await with_deadline(kTidyInterval, wait_for(untidy_));
    if (!waited && waited.error().code == Code::kCancelled) {
      co_return std::move(waited);
    }
  }
}

Task<> TemplateCatalog::tidy(std::string id) {
  auto tidied = co_await tidy_now(id);
  if (!tidied && tidied.error().code == Code::kCancelled) {
    co_return std::move(tidied);
  }
  if (!tidied) {
    LOG_WARN("builds that nobody needs stay for now", {"template", id}, {"error", tidied.error()});
  }
  co_return ok();
}

// A template that sandboxes need stays, and is tried again the next time.
Task<> TemplateCatalog::tidy_now(std::string id) {
  const auto found = families_.find(id);
  if (found == families_.end()) {
    co_return ok();
  }
  const FamilyPointer family = found->second;
  std::vector<std::string> gone;
  for (const std::string& build_id : superfluous(*family)) {
    const FamilyBuild& build = *family->build(build_id);
    const auto removed = build.template_name.empty()
                             ? Result<>{}
                             : co_await parts_.jobs.remove({family->team_id, build.template_name});
    if (removed || removed.error().code == Code::kNotFound) {
      gone.push_back(build_id);
    }
  }
  if (!gone.empty()) {
    CO_TRY_DO(co_await change(id, [&gone](TemplateFamily& next) -> Result<> {
      std::erase_if(next.builds, [&gone](const FamilyBuild& build) {
        return std::ranges::find(gone, build.id) != gone.end();
      });
      return {};
    }));
  }
  const auto now = families_.find(id);
  if (now != families_.end() && now->second->deleted && now->second->builds.empty()) {
    CO_TRY_DO(co_await parts_.store.run(
        [&id](store::Store& store) { return store.remove_record(kTemplateFamilyKind, id); }));
    families_.erase(id);
  }
  co_return ok();
}

}  // namespace atl::control
