// Templates by id, name and tag, with all their builds: what is on the shelf, and what becomes of a
// build.
//
//   request_build   a new build `waiting`, of a template that is made when there is none
//   begin_build     waiting -> building; whatever is built for the same template is cancelled
//   it ends         building -> ready, and its tags are its own now; or error, with the step
//
// A family is a record in the store, and all are in memory, because this process is their only
// writer. A build that a restart cut short has failed. Builds that no tag names are kept for a
// while; a family that was deleted goes once nothing needs its templates. Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/template_family.h"
#include "control/template_jobs.h"
#include "control/template_title.h"

namespace atl::control {

inline constexpr const char* kTemplateFamilyKind = "template-family";  // of records
using FamilyPointer = std::shared_ptr<const TemplateFamily>;

struct NewBuild {
  std::string team_id = store::kDefaultTeam;
  std::string name;               // with a tag, perhaps
  std::vector<std::string> tags;  // more of them; none at all: the default tag
  std::int64_t cpu_count = 0;     // 0: the server's default
  std::int64_t memory_mb = 0;
};
struct RequestedBuild {
  FamilyPointer family;
  std::string build_id;
};

// What a name means to whoever makes a sandbox.
struct TemplateChoice {
  std::string template_name;  // of ours
  FamilyPointer family;       // null: it was not built, so it has no builds
  std::string build_id;
};

class TemplateCatalog {
 public:
  struct Parts {
    StoreAccess store;
    Sandboxes& sandboxes;
    TemplateJobs& jobs;
    const WallClock& clock;
  };
  explicit TemplateCatalog(Parts parts) : parts_(parts) {}
  TemplateCatalog(const TemplateCatalog&) = delete;
  TemplateCatalog& operator=(const TemplateCatalog&) = delete;

  // Reads the records. REQUIRES: the jobs have started.
  Task<> start();
  // Removes what was deleted once nothing needs it, until cancelled.
  Task<> run();

  Task<RequestedBuild> request_build(NewBuild request);
  // `from` of a build from a template is a name as in find().
  Task<> begin_build(std::string team_id, std::string template_id, std::string build_id,
                     StepsBuild request);

  // By id or name. kNotFound; kPermissionDenied for a public one of another team.
  Result<FamilyPointer> own(std::string_view team_id, std::string_view name) const;
  // The same, and public ones of other teams.
  Result<FamilyPointer> find(std::string_view team_id, std::string_view name) const;
  Result<TemplateChoice> choose(std::string_view team_id, std::string_view name) const;
  // Whose build has become this template; null: none.
  FamilyPointer family_of(std::string_view template_name) const;
  std::vector<FamilyPointer> list(std::string_view team_id) const;  // newest first

  Task<FamilyPointer> set_public(std::string team_id, std::string name, bool is_public);
  Task<> remove(std::string team_id, std::string name);
  // The build that `target` names gets the tags too. Answers its id.
  Task<std::string> assign_tags(std::string team_id, std::string target,
                                std::vector<std::string> tags);
  Task<> remove_tags(std::string team_id, std::string name, std::vector<std::string> tags);

 private:
  using Change = std::function<Result<>(TemplateFamily&)>;

  FamilyPointer named(std::string_view team_id, std::string_view alias) const;
  // By the words of a title; null: none that this team may see.
  FamilyPointer look_up(std::string_view team_id, const TemplateTitle& title) const;
  Result<TemplateChoice> choose_plain(std::string_view team_id, const TemplateTitle& title) const;
  Task<FamilyPointer> change(std::string id, Change change);
  Task<> write(TemplateFamily family);
  void keep(TemplateFamily family);
  Result<> check_new(const NewBuild& request, const TemplateTitle& title) const;
  Task<> begin_now(std::string team_id, std::string template_id, std::string build_id,
                   StepsBuild request);
  Task<> begin_job(FamilyPointer family, const FamilyBuild& build, StepsBuild request);
  Task<> finish(std::string id, std::string build_id, Result<> outcome, std::string step);
  // What cannot be tidied now is tried again later.
  Task<> tidy(std::string id);
  Task<> tidy_now(std::string id);
  static std::vector<std::string> superfluous(const TemplateFamily& family);

  Parts parts_;
  std::map<std::string, FamilyPointer, std::less<>> families_;   // by id, also deleted ones
  std::map<std::string, std::string, std::less<>> by_template_;  // whose build it is
  Event untidy_;                                                 // something was deleted, or may go
};

}  // namespace atl::control
