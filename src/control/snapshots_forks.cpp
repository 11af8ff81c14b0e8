// Forks: children that begin as a sandbox is at one moment, with its disk and its volumes.
#include "base/fault_point.h"
#include "base/log.h"
#include "base/random.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/snapshot_making.h"
#include "control/snapshots.h"

namespace atl::control {
namespace {

// Whoever named the parent names the child.
IdStyle style_of(std::string_view id) {
  return id.contains('-') ? IdStyle::kReadable : IdStyle::kPlain;
}

}  // namespace

Task<ClaimAnswer> Snapshots::fork(std::string team_id, std::string sandbox_id,
                                  ForkRequest request) {
  return shielded(fork_now(std::move(team_id), std::move(sandbox_id), std::move(request)));
}

Task<ClaimAnswer> Snapshots::fork_now(std::string team_id, std::string sandbox_id,
                                      ForkRequest request) {
  const std::string moment = concat(kForkPrefix, random_label(16));
  const Making making{making_, moment, team_id};
  ClaimRequest claim{.team_id = std::move(team_id),
                     .count = request.count,
                     .partial = request.partial,
                     .paused = !request.start,
                     .awake_first = static_cast<bool>(request.hooks.children_made),
                     .network = request.network,
                     .once = std::move(request.once),
                     .finish = request.hooks.children_made};
  const auto forked = std::make_shared<MountLists>();  // volumes for the children
  claim.complete = [this, sandbox_id, moment, request, forked](ClaimRequest rest) {
    return begin_as_sandbox(sandbox_id, moment, request, forked, std::move(rest));
  };
  auto claimed = co_await sandboxes_.claim_all(std::move(claim));
  if (!forked->empty()) {
    (void)co_await sandboxes_.mount_keeper()->settle(*forked, claimed.has_value());
  }
  ATOLL_FAULT_POINT("control.fork.children_made");
  if (claimed && claimed->remembered) {
    co_return std::move(claimed);  // nothing was done
  }
  // An only child has taken it.
  const bool taken = claimed && request.count == 1 && !request.memory;
  if (auto removed = taken ? ok() : co_await remove_from_node(moment); !removed) {
    LOG_WARN("the moment of a fork stays until it is swept up", {"snapshot", moment},
             {"error", removed.error()});
  }
  if (!claimed) {
    co_return fail(std::move(claimed).error().note(concat("forking ", sandbox_id)));
  }
  ATOLL_FAULT_POINT("control.fork.moment_removed");
  co_return std::move(claimed);
}

// The parent becomes the row it had at the moment. It outlives the task, like the request.
Task<> Snapshots::take_moment(Sandbox& parent, std::string moment, const ForkRequest& asked,
                              std::function<Task<>()> also) {
  if (asked.hooks.before_moment) {
    CO_TRY_DO(co_await asked.hooks.before_moment());
  }
  node::SnapshotRequest request{
      .id = parent.id, .snapshot = std::move(moment), .memory = asked.memory, .passing = true};
  CO_TRY(parent,
         co_await sandboxes_.snapshot_disk(parent.team_id, std::move(request), std::move(also)));
  if (asked.hooks.after_moment) {
    asked.hooks.after_moment();
  }
  co_return ok();
}

Task<ClaimRequest> Snapshots::begin_as_sandbox(std::string sandbox_id, std::string moment,
                                               ForkRequest asked,
                                               std::shared_ptr<MountLists> forked,
                                               ClaimRequest request) {
  CO_TRY(Sandbox parent, sandboxes_.get(request.team_id, sandbox_id));
  const auto take = [&](std::function<Task<>()> also) {
    return take_moment(parent, moment, asked, std::move(also));
  };
  MountKeeper* const keeper = sandboxes_.mount_keeper();
  if (keeper != nullptr && !parent.mounts.empty()) {
    CO_TRY(*forked, co_await keeper->fork(request.team_id, parent.mounts, request.count, take));
    request.own_mounts = *forked;
  } else {
    CO_TRY_DO(co_await take({}));
  }
  ATOLL_FAULT_POINT("control.fork.moment_taken");
  request.id_style = style_of(parent.id);
  request.template_name = parent.template_name;
  request.env = parent.env;
  request.auto_resume = parent.auto_resume;
  request.ttl_seconds = asked.ttl_seconds.value_or(parent.ttl_seconds);
  request.hard_ttl_seconds = asked.hard_ttl_seconds.value_or(parent.hard_ttl_seconds);
  request.idle_ttl_seconds = parent.idle_ttl_seconds;
  request.labels = parent.labels;
  request.documents = sandboxes_.inherited_documents(parent.id);
  request.origin = Origin{.snapshot_id = std::move(moment),
                          .layers = parent.layers,
                          .limits = parent.limits,
                          .parent_id = parent.id,
                          .ephemeral_tmp = parent.ephemeral_tmp,
                          .descent = {.parent_id = parent.id, .cause = "fork"},
                          .memory = asked.memory,
                          .passing = true};
  co_return std::move(request);
}

}  // namespace atl::control
