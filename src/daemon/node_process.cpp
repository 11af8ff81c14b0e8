// The node's main, in order: storage, runtime, what an earlier node left, templates, socket, ready;
// and backwards when it is told to stop. The stop signal is blocked from birth and looked for at
// two places only: while templates are made (that may take minutes) and while serving.
#include "daemon/node_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <thread>

#include "base/log.h"
#include "base/strings.h"
#include "daemon/child.h"
#include "daemon/criu_adapter.h"
#include "daemon/layout.h"
#include "daemon/privileges.h"
#include "daemon/progress.h"
#include "daemon/version.h"
#include "image/room.h"
#include "layers/room.h"
#include "node/cells.h"
#include "node/event_feed.h"
#include "node/server.h"
#include "node/templates.h"
#include "runtime/room.h"

namespace atl::daemon {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  return set;
}

void wait_for_stop() {
  const sigset_t stop = stop_signals();
  int number = 0;
  ::sigwait(&stop, &number);
}

Layout layout_of(const ChildOptions& options) {
  return {.data_dir = options.data_dir, .instance = options.instance, .run_dir = options.run_dir};
}

Result<std::unique_ptr<layers::Pool>> open_pool(const NodeOptions& options, const Layout& layout) {
  TRY(auto pool,
      layers::open_pool({.directory = layout.pool_dir(), .loop_bytes = options.pool_bytes}));
  TRY(const std::vector<std::string> done, pool->collect());
  for (const std::string& what : done) {
    LOG_INFO("storage repaired", {"what", what});
  }
  return pool;
}

Result<> recover(node::Cells& cells) {
  TRY(const node::RecoverySummary summary, cells.recover());
  if (summary.adopted + summary.dead + summary.undone + summary.unrecorded + summary.failed > 0) {
    LOG_INFO("recovered what an earlier run left", {"still_running", summary.adopted},
             {"found_dead", summary.dead}, {"creates_undone", summary.undone},
             {"leftovers_removed", summary.unrecorded}, {"failed", summary.failed});
  }
  return {};
}

// What the thread that makes templates and the one that waits for it share; the thread may be left
// behind when the node stops.
struct Seeding {
  Fd done{::eventfd(0, EFD_CLOEXEC)};
  Result<> seeded;
};

// True when it is done, false when SIGTERM came first.
Result<bool> wait_for_seeding(const Seeding& seeding) {
  const sigset_t stop = stop_signals();
  const Fd signals{::signalfd(-1, &stop, SFD_CLOEXEC)};
  if (!signals || !seeding.done) {
    return fail_errno("waiting for templates");
  }
  pollfd waiting[] = {{seeding.done.get(), POLLIN, 0}, {signals.get(), POLLIN, 0}};
  while (::poll(waiting, 2, -1) < 0) {
    if (errno != EINTR) {
      return fail_errno("waiting for templates");
    }
  }
  return waiting[1].revents == 0;
}

// On a thread of its own, because a build takes minutes and SIGTERM must not. False: stop.
Result<bool> seed(node::BuiltinTemplates& templates) {
  const auto seeding = std::make_shared<Seeding>();
  std::thread{[seeding, &templates] {
    ProgressLine line{"preparing template default"};
    seeding->seeded = templates.seed(
        [&line](std::string_view step, double fraction) { line.show(step, fraction); });
    const std::uint64_t one = 1;
    CHECK(::write(seeding->done.get(), &one, sizeof one) == sizeof one);
  }}.detach();
  TRY(const bool done, wait_for_seeding(*seeding));
  if (!done) {
    return false;
  }
  TRY_DO(std::move(seeding->seeded));
  return true;
}

node::HelloAnswer make_hello(const runtime::Capabilities& capabilities,
                             const layers::PoolStatus& status) {
  return {.version = kVersion,
          .runtime = capabilities.name,
          .kernel_boundary = capabilities.kernel_boundary,
          .memory_dump = capabilities.memory_dump.possible,
          .memory_dump_reason = capabilities.memory_dump.reason,
          .live_fork = capabilities.live_fork,
          .freeze = capabilities.freeze,
          .disk_quota = status.quota,
          .egress = capabilities.egress.possible,
          .egress_ipv6 = capabilities.egress.ipv6,
          .egress_reason = capabilities.egress.reason,
          .storage_backend = std::string{layers::backend_name(status.backend)},
          .pool_total_bytes = status.total_bytes};
}

struct Ground {
  std::unique_ptr<layers::Pool> pool;
  std::unique_ptr<runtime::Runtime> runtime;
  std::unique_ptr<node::UidRanges> uids;
};

Result<Ground> open_ground(const NodeOptions& options, const Layout& layout) {
  Ground ground;
  TRY(ground.pool, open_pool(options, layout));
  TRY(ground.runtime, runtime::open_namespaces_runtime({.instance = layout.instance,
                                                        .guest_binary = options.guest_binary,
                                                        .stage_dir = layout.stage_dir(),
                                                        .criu_directory = options.criu_dir,
                                                        .criu_adapter = find_criu_adapter()}));
  TRY(ground.uids, node::UidRanges::open({.claims_dir = kUidClaims, .data_dir = layout.data_dir}));
  return ground;
}

Result<> close_ground(Ground& ground, node::Cells& cells) {
  TRY_DO(cells.stop());
  TRY_DO(ground.runtime->close());
  TRY_DO(ground.uids->close());
  return ground.pool->close();
}

Result<> serve(const NodeOptions& options, const Layout& layout, Ground& ground, node::Cells& cells,
               node::EventFeed& events, node::BuiltinTemplates& templates) {
  TRY(const layers::PoolStatus status, ground.pool->status());
  TRY(const auto server,
      node::Server::start({.cells = cells,
                           .events = events,
                           .hello = make_hello(ground.runtime->capabilities(), status),
                           .socket_path = layout.node_socket(),
                           .peer_uid = options.common.uid,
                           .peer_gid = options.common.gid,
                           .pool = ground.pool.get(),
                           .templates = &templates}));
  TRY_DO(report_ready(options.common.ready_fd, ""));
  LOG_INFO("node is ready", {"storage", layers::backend_name(status.backend)},
           {"disk_limits", status.quota});
  wait_for_stop();
  return {};
}

// The thread that makes templates still uses the pool: leave it to the kernel, which unmounts and
// detaches when this process and the tools that the supervisor ends are gone.
Result<> leave_while_making(Ground& ground, node::Cells& cells) {
  LOG_INFO("stopped while templates were being made");
  TRY_DO(cells.stop());
  TRY_DO(ground.runtime->close());
  TRY_DO(ground.uids->close());
  ::_exit(0);
}

}  // namespace

Result<> run_node(const NodeOptions& options) {
  ::umask(077);
  stop_inheriting(options.common.ready_fd);
  stop_inheriting(options.lock_fd);
  TRY_DO(follow_faults(options.common.fault_fd));
  TRY_DO(die_with(options.common.supervisor));
  TRY_DO(enter_private_mounts());
  const Layout layout = layout_of(options.common);
  TRY(Ground ground, open_ground(options, layout));
  node::EventFeed events;
  TRY(const auto cells, node::Cells::open({.runtime = *ground.runtime,
                                           .pool = *ground.pool,
                                           .uids = *ground.uids,
                                           .records = node::CellRecords{layout.cells_dir()},
                                           .dumps = node::Dumps{ground.pool->dumps_path()},
                                           .socket_dir = layout.guest_dir(),
                                           .socket_uid = options.common.uid,
                                           .socket_gid = options.common.gid,
                                           .on_died = [&events](const std::string& id) {
                                             events.publish({node::Event::Kind::kCellDied, id});
                                           }}));
  TRY_DO(recover(*cells));
  node::BuiltinTemplates templates{
      {.pool = *ground.pool,
       .cache_dir = options.cache_dir,
       .publish = [&events](const auto& event) { events.publish(event); }}};
  const auto seeded = seed(templates);
  if (!seeded) {
    (void)close_ground(ground, *cells);  // the first error is the one to report
    return fail(seeded.error());
  }
  if (!*seeded) {
    return leave_while_making(ground, *cells);
  }
  auto served = serve(options, layout, ground, *cells, events, templates);
  if (templates.busy()) {
    return leave_while_making(ground, *cells);
  }
  auto closed = close_ground(ground, *cells);
  return served ? closed : served;
}

}  // namespace atl::daemon
