// atolld's main, in order: privileges away, database, node, sandboxes, dialects, port, ready. What
// runs beside requests is a child of one scope; one of them that fails ends the process, and the
// supervisor starts a fresh one that reads everything back from the database.
#include "daemon/api_process.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "base/log_gather.h"
#include "base/metrics.h"
#include "base/strings.h"
#include "control/access_tokens.h"
#include "control/approvals.h"
#include "control/authorities.h"
#include "control/contexts.h"
#include "control/credential_command.h"
#include "control/credential_resolver.h"
#include "control/credential_sources.h"
#include "control/diffs.h"
#include "control/flow_log.h"
#include "control/identity.h"
#include "control/interpreter.h"
#include "control/memory_pressure.h"
#include "control/network_policies.h"
#include "control/operator_policy.h"
#include "control/preloaded.h"
#include "control/prepared_cells.h"
#include "control/prepared_warm_up.h"
#include "control/previews.h"
#include "control/resources.h"
#include "control/s3_volumes.h"
#include "control/sandbox_terms.h"
#include "control/sandboxes.h"
#include "control/services.h"
#include "control/snapshots.h"
#include "control/ssh_keys.h"
#include "control/template_jobs.h"
#include "control/tree_archives.h"
#include "control/volumes.h"
#include "daemon/child.h"
#include "daemon/e2b_dialect.h"
#include "daemon/inherited.h"
#include "daemon/layout.h"
#include "daemon/network_boundary.h"
#include "daemon/privileges.h"
#include "daemon/serving.h"
#include "daemon/ssh_port.h"
#include "http/cors.h"
#include "http/server.h"
#include "ingress/gateway.h"
#include "ingress/ssh_gateway.h"
#include "io/file_sender.h"
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

constexpr std::size_t kMaxStoreQueue = 8192;
constexpr std::size_t kArchiveThreads = 2;
constexpr std::size_t kMaxArchiveQueue = 256;
// Packing and unpacking for clients; apart from the templates, whose steps take long.
constexpr std::size_t kFileThreads = 4;
constexpr std::size_t kMaxFileQueue = 1024;
// Downloads that the kernel sends by itself; those beyond are copied. Their threads only wait for
// disks.
constexpr std::size_t kBodyThreads = 4;
constexpr std::size_t kManySentFiles = 64;
constexpr std::size_t kBucketThreads = 2;
constexpr std::size_t kMaxBucketQueue = 256;
constexpr std::size_t kResolverThreads = 8;
constexpr std::size_t kMaxFlowFileQueue = 1024;
constexpr std::size_t kNetworkThreads = 2;
constexpr std::size_t kMaxNetworkQueue = 4096;
// Clients get at most this share of the descriptors: sandboxes need theirs to be reached.
constexpr std::size_t kClientsShare = 2;

// Nothing when the operator has none. A file that cannot be used is a reason not to start.
Result<std::optional<control::OperatorPolicy>> open_operator_policy(
    const ApiOptions& options, control::NetworkPolicies& policies) {
  if (options.operator_policy.empty()) {
    return std::nullopt;
  }
  TRY(auto file, control::OperatorPolicy::open(options.operator_policy));
  TRY(auto policy, file.read());
  policies.set_operator_policy(std::move(policy));
  return std::optional{std::move(file)};
}

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
  control::StoreThread store_thread{*store, kMaxStoreQueue};
  const control::StoreAccess access{*store, &store_thread};
  const auto node = node::connect_node(reactor, layout.node_socket());

  control::Identity identity{access, clock};
  CO_TRY_DO(co_await identity.load());
  CO_TRY_DO(co_await identity.ensure_admin_key(std::move(admin_hash)));
  CO_TRY(const auto flow_file, store::open_sqlite_flow_file(layout.db_mount() + "/flows.db"));
  io::OffloadPool flow_thread{"flows", 1, kMaxFlowFileQueue};
  control::FlowLog flow_log{*flow_file, flow_thread, clock, metrics};
  control::Approvals approvals{flow_log, clock, metrics,
                               std::chrono::seconds{options.approval_timeout_seconds}};
  control::Sandboxes sandboxes{access,
                               *node,
                               clock,
                               metrics,
                               {.resources = control::host_resource_policy(),
                                .dump_after_seconds = options.dump_after_seconds,
                                .memory_is_short = control::host_memory_is_short}};
  io::OffloadPool resolver_threads{"resolve", kResolverThreads, kMaxBucketQueue};
  CO_TRY(const auto outgoing_tls, tls::Context::client({}));
  control::CredentialSources credentials{access, keyring, clock};
  CO_TRY_DO(co_await credentials.start());
  control::NetworkPolicies policies{access, sandboxes, clock, &credentials};
  CO_TRY_DO(co_await policies.start());
  credentials.on_bound([&policies](std::string_view team_id, std::string_view name) {
    return policies.is_bound(team_id, name);
  });
  CO_TRY(auto operator_policy, open_operator_policy(options, policies));
  control::Authorities authorities{access, keyring, clock, sandboxes};
  CO_TRY_DO(co_await authorities.start());
  CO_TRY(auto token_servers, s3::EndpointPolicy::parse(options.credential_endpoints));
  if (!options.credential_commands.empty()) {
    CO_TRY_DO(control::check_command_directory(options.credential_commands));
  }
  control::CredentialFetcher fetcher{{.reactor = reactor,
                                      .resolvers = resolver_threads,
                                      .tls = *outgoing_tls,
                                      .sources = credentials,
                                      .endpoints = std::move(token_servers),
                                      .command_directory = options.credential_commands}};
  control::CredentialResolver resolver{credentials, fetcher};
  CO_TRY(std::string upstream_roots, read_egress_roots(options.egress));
  io::OffloadPool network_threads{"network", kNetworkThreads, kMaxNetworkQueue};
  NetworkBoundary boundary{
      {.reactor = reactor,
       .node = *node,
       .sandboxes = sandboxes,
       .clock = clock,
       .metrics = metrics,
       .threads = network_threads,
       .flows = flow_log,
       .credentials = resolver,
       .approvals = approvals,
       .authorities = authorities,
       .rules = policies,
       .groups_of =
           [&policies](const control::Sandbox& sandbox) { return policies.groups_of(sandbox); },
       .guest_socket =
           [&layout](const std::string& id) {
             return concat(layout.guest_dir(), "/", id, ".sock");
           },
       .handlers = all_handlers(),
       .opened = options.egress.opened,
       .dns_upstreams = options.egress.dns_upstreams,
       .upstream_roots_pem = std::move(upstream_roots),
       .default_limits = options.egress.limits}};
  policies.on_refresh(&boundary.networks());
  authorities.on_issued([&trust = boundary.trust()](const std::string& id) { trust.renew(id); });
  CO_TRY_DO(co_await sandboxes.start());
  control::Services services{access, sandboxes, clock};
  control::SandboxLog sandbox_log{sandboxes, clock};
  control::SandboxTerms terms{access, sandboxes, clock};
  terms.log_to(&sandbox_log);
  control::Snapshots snapshots{access, *node, sandboxes, clock};
  CO_TRY_DO(co_await snapshots.start());
  control::VolumeCells volume_cells{reactor, *node, sandboxes};
  io::OffloadPool bucket_threads{"s3", kBucketThreads, kMaxBucketQueue};
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
  // Apart from the connections of claims, so that neither waits for the other's.
  const auto prepared_node = node::connect_node(reactor, layout.node_socket());
  control::PreparedOptions prepared_options = control::host_prepared_options(options.prepared_max);
  if (options.prepared_memory > 0) {
    prepared_options.memory_bytes = options.prepared_memory;
  }
  prepared_options.warm_up = [&reactor](std::string guest_socket) {
    return control::warm_up_cell(reactor, std::move(guest_socket));
  };
  control::PreparedCells prepared{{.loop = reactor,
                                   .node = *prepared_node,
                                   .sandboxes = sandboxes,
                                   .metrics = metrics,
                                   .options = std::move(prepared_options)}};
  control::PreloadedInterpreters preloaded{{.reactor = reactor,
                                            .pool = archive_threads,
                                            .node = *node,
                                            .sandboxes = sandboxes,
                                            .limits = build_limits}};
  contexts.interpreters().use(preloaded);
  control::TemplateCatalog catalog{
      {.store = access, .sandboxes = sandboxes, .jobs = templates, .clock = clock}};
  CO_TRY_DO(co_await catalog.start());
  control::BuildFiles build_files{templates, clock};
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
  CO_TRY_DO(co_await services.start());
  CO_TRY_DO(co_await terms.start());
  control::VolumeNames volume_names{access, volumes, clock};
  CO_TRY_DO(co_await volume_names.start());
  CO_TRY(auto token_seed, co_await control::load_or_make_token_seed(access, keyring, clock));
  const control::AccessTokens tokens{std::move(token_seed)};
  control::Previews previews{access, sandboxes, clock};
  CO_TRY_DO(co_await previews.start());
  CO_TRY(Fd port, open_port(options));
  CO_TRY(control::PublicNames names,
         control::make_public_names(options.domain, options.public_url, options.host,
                                    port_of(port.get(), options.port), tls != nullptr));
  const service::native::Published published{services, previews, names};
  // Whatever certificate a service has: it is the sandbox itself that we have connected to.
  CO_TRY(const auto service_tls, tls::Context::client({.verify = false}));
  const ingress::Connect connect = [&ports = boundary.ports()](std::string team_id, std::string id,
                                                               std::uint16_t number) {
    return ports.connect(std::move(team_id), std::move(id), number);
  };
  ingress::Upstreams upstreams{reactor, connect, service_tls.get()};
  ingress::ServiceRunner service_runner{contexts, sandboxes, upstreams};
  services.on_changed([&service_runner](control::SandboxServicesPtr changed) {
    service_runner.refresh(std::move(changed));
  });
  sandboxes.on_started([&](const control::Sandbox& sandbox) {
    sandbox_log.add(sandbox.id, {.source = "sandbox", .message = "running"});
    if (auto found = services.find(sandbox.id)) {
      service_runner.refresh(std::move(found));
    }
  });
  ingress::Gateway gateway{{.sandboxes = sandboxes,
                            .terms = terms,
                            .tokens = tokens,
                            .services = services,
                            .previews = previews,
                            .runner = service_runner,
                            .upstreams = upstreams,
                            .names = names,
                            .clock = clock,
                            .metrics = metrics,
                            .flows = &flow_log}};
  control::SshKeys ssh_keys{access, clock};
  CO_TRY_DO(co_await ssh_keys.load());
  service::native::NativeApi native{sandboxes,
                                    snapshots,
                                    contexts,
                                    identity,
                                    clock,
                                    metrics,
                                    &templates,
                                    &archives,
                                    &volumes,
                                    &diffs,
                                    {.flows = &flow_log,
                                     .approvals = &approvals,
                                     .rules = &policies,
                                     .opened = options.egress.opened},
                                    &published,
                                    &ssh_keys,
                                    {.policies = &policies, .credentials = &credentials}};
  SshParts ssh_parts{.reactor = reactor,
                     .sandboxes = sandboxes,
                     .keys = ssh_keys,
                     .store = access,
                     .keyring = keyring,
                     .clock = clock,
                     .native = native,
                     .connect = connect};
  CO_TRY(const auto ssh, co_await open_ssh(std::move(ssh_parts), options));

  E2bDialect e2b{{.sandboxes = sandboxes,
                  .terms = terms,
                  .tokens = tokens,
                  .log = sandbox_log,
                  .snapshots = snapshots,
                  .contexts = contexts,
                  .identity = identity,
                  .templates = templates,
                  .catalog = catalog,
                  .build_files = build_files,
                  .volumes = volumes,
                  .volume_names = volume_names,
                  .policies = policies,
                  .credentials = credentials,
                  .gateway = gateway,
                  .names = names,
                  .clock = clock,
                  .metrics = metrics}};

  CO_TRY(auto cors, http::parse_cors_policy(options.cors_origin));
  http::Handler handler = [&native](http::Exchange& exchange) { return native.handle(exchange); };
  if (cors) {
    handler = http::with_cors(*std::move(cors), std::move(handler));
  }
  handler = [&gateway, api = std::move(handler)](http::Exchange& exchange) {
    return gateway.handle(exchange, api);
  };
  handler = [&e2b, next = std::move(handler)](http::Exchange& exchange) {
    return e2b.handle(exchange, next);
  };
  http::ServerLimits limits;
  limits.connections = std::min(limits.connections, open_file_limit() / kClientsShare);
  io::OffloadPool body_threads{"bodies", kBodyThreads, kBodyThreads};
  io::FileSender file_sender{reactor, body_threads, kManySentFiles, kBodyThreads};
  http::Server server{reactor, std::move(port), std::move(handler),
                      limits,  metrics,         {.tls = tls, .files = &file_sender}};
  // Connections queue from here on, and whoever is told so can read how we got here.
  log_flush();
  CO_TRY_DO(report_ready(options.common.ready_fd, std::to_string(server.port())));
  Serving serving{co_await current_context(), server};
  serving.add("identity", identity.run());
  serving.add("flow log", flow_log.run());
  serving.add("proxy", boundary.proxy().run());
  serving.add("networks", boundary.networks().run());
  serving.add("trust", boundary.trust().run());
  serving.add("sandboxes", sandboxes.run());
  serving.add("network policies", policies.run());
  if (operator_policy) {
    serving.add("operator policy", operator_policy->run(reactor, [&policies](egress::Policy next) {
      policies.set_operator_policy(std::move(next));
    }));
  }
  serving.add("snapshots", snapshots.run());
  serving.add("volumes", volumes.run());
  serving.add("s3 volumes", s3_volumes.run());
  serving.add("volume files", volume_cells.run());
  serving.add("contexts", contexts.run());
  serving.add("e2b", e2b.run());
  serving.add("prepared", prepared.run());
  serving.add("preloaded", preloaded.run());
  serving.add("templates", templates.run());
  serving.add("template catalog", catalog.run());
  serving.add("build files", build_files.run());
  serving.add("services", service_runner.run());
  if (ssh) {
    serving.add("ssh", ssh->run());
  }
  co_return co_await serving.run(reactor);
}

}  // namespace

Result<> run_api(const ApiOptions& options) {
  ::umask(077);
  ::signal(SIGPIPE, SIG_IGN);  // splice(2) has no flag that would spare us the signal
  log_gather();
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
