// atolld's main, in order: privileges away, database, node, sandboxes, dialects, port, ready. What
// runs beside requests is a child of one scope; one of them that fails ends the process, and the
// supervisor starts a fresh one that reads everything back from the database.
#include "daemon/api_process.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/strings.h"
#include "control/contexts.h"
#include "control/diffs.h"
#include "control/identity.h"
#include "control/memory_pressure.h"
#include "control/resources.h"
#include "control/s3_volumes.h"
#include "control/sandboxes.h"
#include "control/snapshots.h"
#include "control/template_jobs.h"
#include "control/tree_archives.h"
#include "control/volumes.h"
#include "daemon/child.h"
#include "daemon/layout.h"
#include "daemon/privileges.h"
#include "http/cors.h"
#include "http/server.h"
#include "io/offload.h"
#include "io/reactor.h"
#include "io/stream.h"
#include "node/client.h"
#include "secrets/keyring.h"
#include "service/native/native_api.h"
#include "store/room.h"
#include "tls/context.h"

namespace atl::daemon {
namespace {

constexpr std::chrono::seconds kDrainTime{10};
constexpr std::size_t kHashBytes = 32;
constexpr std::size_t kMaxStoreQueue = 8192;
constexpr std::size_t kArchiveThreads = 2;
constexpr std::size_t kMaxArchiveQueue = 256;
// Packing and unpacking for clients; apart from the templates, whose steps take long.
constexpr std::size_t kFileThreads = 4;
constexpr std::size_t kMaxFileQueue = 1024;
constexpr std::size_t kBucketThreads = 2;
constexpr std::size_t kMaxBucketQueue = 256;
constexpr std::size_t kResolverThreads = 8;
constexpr std::size_t kMaxIdentityBytes = std::size_t{2} << 20;

Result<std::string> read_admin_hash(int fd) {
  std::string hash(kHashBytes, '\0');
  if (::pread(fd, hash.data(), hash.size(), 0) != static_cast<ssize_t>(hash.size())) {
    return fail(Code::kInternal, "the supervisor handed over no admin key");
  }
  ::close(fd);
  return hash;
}

// The file stays with the supervisor, for the next API process.
Result<secrets::Keyring> read_keyring(int fd) {
  std::string text(secrets::kMaxKeyFileBytes, '\0');
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  ::close(fd);
  auto keyring = secrets::Keyring::parse(
      std::string_view{text}.substr(0, static_cast<std::size_t>(std::max<ssize_t>(size, 0))));
  secrets::wipe(text);
  return keyring;
}

// Null: plain HTTP. The file stays with the supervisor, for the next API process.
Result<std::unique_ptr<tls::Context>> read_tls_identity(int fd) {
  if (fd < 0) {
    return nullptr;
  }
  std::string pem(kMaxIdentityBytes, '\0');
  const ssize_t size = ::pread(fd, pem.data(), pem.size(), 0);
  ::close(fd);
  if (size <= 0 || static_cast<std::size_t>(size) == pem.size()) {
    return fail(Code::kInternal, "the supervisor handed over no usable certificate");
  }
  pem.resize(static_cast<std::size_t>(size));
  auto context = tls::Context::server(
      {.identity = {.certificate_pem = pem, .key_pem = pem}, .protocols = {"h2", "http/1.1"}});
  ::explicit_bzero(pem.data(), pem.size());
  return context;
}

Result<Fd> open_port(const ApiOptions& options) {
  if (options.listen_fd >= 0) {
    stop_inheriting(options.listen_fd);
    return Fd{options.listen_fd};
  }
  auto bound = io::Listener::bind_tcp(options.host, options.port);
  if (!bound && bound.error().reason == "EADDRINUSE") {
    return fail(Code::kFailedPrecondition,
                concat(bound.error().message, "; stop what uses it or choose another --listen"));
  }
  return bound;
}

// Everything that serves, and how it stops: drained when asked to, at once when a part fails.
class Serving {
 public:
  Serving(TaskContext& context, http::Server& server) : server_(server), scope_(context) {
    scope_.on_error([this](const char* task, const Error& error) {
      LOG_ERROR("a part of the API failed", {"part", task}, {"error", error});
      failure_ = fail(error);
      over_.set();
    });
  }

  void add(const char* name, Task<> task) { scope_.spawn(name, std::move(task)); }

  Task<> run(io::Reactor& reactor) {
    scope_.spawn("http", serve_http());
    scope_.spawn("signals", wait_for_signal(reactor));
    (void)co_await wait(over_);
    server_.drain();
    if (!co_await with_deadline(kDrainTime, wait(drained_))) {
      LOG_WARN("requests are still under way; not waiting for them any longer");
    }
    (void)co_await scope_.cancel_and_join();
    co_return failure_;
  }

 private:
  static Task<> wait(Event& event) { co_return co_await event.wait(); }

  Task<> serve_http() {
    auto served = co_await server_.run();
    drained_.set();
    co_return served;
  }

  Task<> wait_for_signal(io::Reactor& reactor) {
    io::SignalWatch signals{reactor, {SIGTERM}};
    CO_TRY_DO(co_await signals.next());
    over_.set();
    co_return ok();
  }

  http::Server& server_;
  Event over_;
  Event drained_;
  Result<> failure_;
  Scope scope_;
};

Task<> serve(io::Reactor& reactor, const ApiOptions& options, std::string admin_hash,
             const tls::Context* tls, const secrets::Keyring& keyring) {
  const Layout layout{.run_dir = options.common.run_dir};
  const SystemWallClock clock;
  Metrics metrics;
  auto opened = store::open_sqlite_store(layout.db_mount() + "/atoll.db");
  if (!opened) {
    co_return fail(std::move(opened).error().note(
        concat("opening ", options.common.data_dir, "/db, here as ", layout.db_mount())));
  }
  const auto store = *std::move(opened);
  io::OffloadPool store_thread{"store", 1, kMaxStoreQueue};
  const control::StoreAccess access{*store, &store_thread};
  const auto node = node::connect_node(reactor, layout.node_socket());

  control::Identity identity{access, clock};
  CO_TRY_DO(co_await identity.load());
  CO_TRY_DO(co_await identity.ensure_admin_key(std::move(admin_hash)));
  control::Sandboxes sandboxes{access,
                               *node,
                               clock,
                               metrics,
                               {.resources = control::host_resource_policy(),
                                .dump_after_seconds = options.dump_after_seconds,
                                .memory_is_short = control::host_memory_is_short}};
  CO_TRY_DO(co_await sandboxes.start());
  control::Snapshots snapshots{access, *node, sandboxes, clock};
  CO_TRY_DO(co_await snapshots.start());
  control::VolumeCells volume_cells{reactor, *node, sandboxes};
  io::OffloadPool bucket_threads{"s3", kBucketThreads, kMaxBucketQueue};
  io::OffloadPool resolver_threads{"resolve", kResolverThreads, kMaxBucketQueue};
  CO_TRY(const auto outgoing_tls, tls::Context::client({}));
  CO_TRY(auto endpoints, s3::EndpointPolicy::parse(options.s3_endpoints));
  s3::Surroundings buckets{.reactor = reactor,
                           .threads = bucket_threads,
                           .resolvers = resolver_threads,
                           .tls = *outgoing_tls,
                           .clock = clock,
                           .policy = std::move(endpoints)};
  control::S3Volumes s3_volumes{buckets, keyring};
  control::Volumes volumes{access, *node, sandboxes, volume_cells, clock};
  volumes.add_backend(std::string{control::kS3Backend}, s3_volumes);
  CO_TRY_DO(co_await volumes.start());
  control::Contexts contexts{reactor, sandboxes, clock};
  io::OffloadPool archive_threads{"archive", kArchiveThreads, kMaxArchiveQueue};
  CO_TRY(const store::Limits build_limits,
         control::decide_limits(control::host_resource_policy(), {}));
  control::Scratch scratch{layout.db_mount()};
  control::TemplateJobs templates{{.reactor = reactor,
                                   .pool = archive_threads,
                                   .node = *node,
                                   .sandboxes = sandboxes,
                                   .snapshots = snapshots,
                                   .scratch = scratch,
                                   .store = access,
                                   .clock = clock,
                                   .build_limits = build_limits,
                                   .directory = layout.db_mount() + "/images"}};
  CO_TRY_DO(co_await templates.start());
  io::OffloadPool file_threads{"files", kFileThreads, kMaxFileQueue};
  control::TreeArchives archives{file_threads};
  control::Diffs diffs{{.reactor = reactor,
                        .pool = file_threads,
                        .node = *node,
                        .sandboxes = sandboxes,
                        .snapshots = snapshots,
                        .scratch = scratch,
                        .limits = build_limits,
                        .directory = layout.db_mount() + "/exports"}};
  CO_TRY_DO(co_await diffs.start());
  service::native::NativeApi native{sandboxes, snapshots,  contexts,  identity, clock,
                                    metrics,   &templates, &archives, &volumes, &diffs};

  CO_TRY(Fd port, open_port(options));
  CO_TRY(auto cors, http::parse_cors_policy(options.cors_origin));
  http::Handler handler = [&native](http::Exchange& exchange) { return native.handle(exchange); };
  if (cors) {
    handler = http::with_cors(*std::move(cors), std::move(handler));
  }
  http::Server server{reactor, std::move(port), std::move(handler), http::ServerLimits{},
                      metrics, {.tls = tls}};
  // Connections queue from here on.
  CO_TRY_DO(report_ready(options.common.ready_fd, std::to_string(server.port())));
  Serving serving{co_await current_context(), server};
  serving.add("identity", identity.run());
  serving.add("sandboxes", sandboxes.run());
  serving.add("snapshots", snapshots.run());
  serving.add("volumes", volumes.run());
  serving.add("s3 volumes", s3_volumes.run());
  serving.add("volume files", volume_cells.run());
  serving.add("contexts", contexts.run());
  serving.add("templates", templates.run());
  co_return co_await serving.run(reactor);
}

}  // namespace

Result<> run_api(const ApiOptions& options) {
  ::umask(077);
  stop_inheriting(options.common.ready_fd);
  TRY_DO(follow_faults(options.common.fault_fd));
  TRY(std::string admin_hash, read_admin_hash(options.admin_fd));
  TRY(const auto tls, read_tls_identity(options.tls_fd));
  TRY(const secrets::Keyring keyring, read_keyring(options.secrets_fd));
  TRY_DO(drop_privileges({options.common.uid, options.common.gid}));
  TRY_DO(die_with(options.common.supervisor));
  io::Reactor reactor;
  return reactor.run_until_complete(
      serve(reactor, options, std::move(admin_hash), tls.get(), keyring));
}

}  // namespace atl::daemon
