#include "daemon/serve.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/strings.h"
#include "daemon/admin_key.h"
#include "daemon/layout.h"
#include "daemon/notify.h"
#include "daemon/privileges.h"
#include "daemon/secrets_key.h"
#include "daemon/supervisor.h"
#include "image/room.h"
#include "io/stream.h"
#include "secrets/plaintext.h"
#include "tls/context.h"

namespace atl::daemon {
namespace {

constexpr std::uint16_t kFirstUnprivilegedPort = 1024;

Result<Fd> open_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) {
    ::sigaddset(&set, number);
  }
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // a log that nobody reads any more must not end the server
  Fd fd{::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (!fd) {
    return fail_errno("waiting for signals");
  }
  return fd;
}

// Beside the executable, or where a package puts it.
Result<std::string> find_guest_binary(const std::string& wanted) {
  char buffer[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", buffer, sizeof buffer);
  if (size < 0) {
    return fail_errno("finding this executable");
  }
  const std::string_view executable{buffer, static_cast<std::size_t>(size)};
  const std::string directory{executable.substr(0, executable.rfind('/'))};
  const std::vector<std::string> places =
      wanted.empty()
          ? std::vector{directory + "/atoll-guest", directory + "/../lib/atoll/atoll-guest"}
          : std::vector{wanted};
  for (const std::string& place : places) {
    if (::access(place.c_str(), R_OK) == 0) {
      return place;
    }
  }
  return fail(Code::kNotFound, concat("the guest agent is not at ", places.front(),
                                      "; build it (make build) or give --guest-binary"));
}

Result<Fd> bind_privileged_port(const ServeOptions& options) {
  if (options.port == 0 || options.port >= kFirstUnprivilegedPort) {
    return Fd{};
  }
  return io::Listener::bind_tcp(options.host, options.port);
}

// The API binds its port when everything else is ready; somebody who sits on it is known now.
Result<> check_port_is_free(const ServeOptions& options) {
  if (options.port < kFirstUnprivilegedPort) {
    return {};
  }
  auto probe = io::Listener::bind_tcp(options.host, options.port);
  if (!probe) {
    return fail(Code::kUnavailable, concat(probe.error().message,
                                           "; end what uses it, or choose another with --listen"));
  }
  return {};
}

// The words of the command that greets instead of the supervisor.
std::vector<std::string> greeter_words(const ServeOptions& options, const Layout& layout) {
  if (!options.print_for_clients) {
    return {};
  }
  std::vector<std::string> words{"dev", "--print", "--data-dir", layout.data_dir};
  if (options.print_json) {
    words.insert(words.end(), {"-o", "json"});
  }
  if (!options.tls_certificate.empty()) {
    words.insert(words.end(), {"--ca-file", options.tls_certificate});
  }
  return words;
}

// Read while we are root, so that the key may belong to root; never seen by the API's arguments.
// One text carries both: a reader of PEM skips what it does not look for.
Result<Fd> load_tls_identity(const ServeOptions& options) {
  if (options.tls_certificate.empty()) {
    return Fd{};
  }
  TRY(const tls::Identity identity, tls::read_identity(options.tls_certificate, options.tls_key));
  return seal_in_memory(concat(identity.certificate_pem, "\n", identity.key_pem));
}

// Only root starts a server, and only root's file can tell it to fail.
Result<Fd> open_fault_plan(const ServeOptions& options) {
  if (options.fault_plan.empty()) {
    return Fd{};
  }
  Fd plan{::open(options.fault_plan.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)};
  if (!plan) {
    return fail_errno(concat("opening the fault plan ", options.fault_plan));
  }
  TRY_DO(fault::check_plan(plan.get()));
  LOG_WARN("this server fails on purpose, as its fault plan says", {"plan", options.fault_plan});
  return plan;
}

// The same for what the API process trusts upstream servers by.
Result<Fd> load_egress_roots(const EgressOptions& options) {
  if (options.roots_file.empty()) {
    return Fd{};
  }
  TRY(const std::string pem, read_file(options.roots_file, kMaxRootsBytes));
  return seal_in_memory(pem);
}

Result<Fd> load_secrets_key(const ServeOptions& options, const Layout& layout) {
  TRY(auto text, options.secrets_key.empty() ? load_or_make_secrets_key(layout.secrets_key())
                                             : load_given_secrets_key(options.secrets_key));
  auto sealed = seal_in_memory(text);
  secrets::wipe(text);
  return sealed;
}

}  // namespace

Result<> run_serve(const ServeOptions& options) {
  if (::geteuid() != 0) {
    return fail(Code::kPermissionDenied,
                "atoll serve makes namespaces and mounts and must be started as root");
  }
  ::umask(022);
  // What the caller left open is not for our children.
  ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  raise_open_files();
  const ServiceNotifier notifier;
  TRY(const std::string guest_binary, find_guest_binary(options.guest_binary));
  TRY(const Layout layout, open_layout(options.data_dir));
  TRY(const Account account, find_account(options.user, layout.instance));
  TRY(const Fd lock, lock_layout(layout, concat(options.host, ":", options.port)));
  // Before anything is made that a failure would leave behind.
  TRY(const Fd privileged_port, bind_privileged_port(options));
  TRY_DO(check_port_is_free(options));
  TRY_DO(prepare_directories(layout, account));
  TRY(const std::string admin_key_hash, load_or_make_admin_key(layout.admin_key()));
  TRY(const Fd admin_key, seal_in_memory(admin_key_hash));
  TRY(const Fd secrets_key, load_secrets_key(options, layout));
  TRY(const Fd tls_identity, load_tls_identity(options));
  TRY(const Fd egress_roots, load_egress_roots(options.egress));
  EgressOptions egress = options.egress;
  egress.roots_fd = egress_roots ? egress_roots.get() : -1;
  TRY(const Fd fault_plan, open_fault_plan(options));
  TRY(const Fd signals, open_signals());
  TRY_DO(enter_private_mounts());
  TRY_DO(mount_database_dir(layout));
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return fail_errno("adopting orphans");
  }
  const ChildOptions common{.data_dir = layout.data_dir,
                            .run_dir = layout.run_dir,
                            .instance = layout.instance,
                            .uid = account.uid,
                            .gid = account.gid,
                            .log = options.log,
                            .supervisor = ::getpid(),
                            .fault_fd = fault_plan ? fault_plan.get() : -1};
  Supervisor supervisor{
      {.layout = layout,
       .node = {.common = common,
                .cache_dir =
                    options.cache_dir.empty() ? image::default_cache_dir() : options.cache_dir,
                .guest_binary = guest_binary,
                .criu_dir = options.criu_dir,
                .pool_bytes = options.pool_bytes,
                .lock_fd = lock.get()},
       .api = {.common = common,
               .host = options.host,
               .port = options.port,
               .listen_fd = privileged_port ? privileged_port.get() : -1,
               .admin_fd = admin_key.get(),
               .tls_fd = tls_identity ? tls_identity.get() : -1,
               .cors_origin = options.cors_origin,
               .dump_after_seconds = options.dump_after_seconds,
               .approval_timeout_seconds = options.approval_timeout_seconds,
               .prepared_max = options.prepared_max,
               .prepared_memory = options.prepared_memory,
               .secrets_fd = secrets_key.get(),
               .s3_endpoints = options.s3_endpoints,
               .egress = egress,
               .domain = options.domain,
               .public_url = options.public_url,
               .ssh_listen = options.ssh_listen,
               .operator_policy = options.operator_policy,
               .credential_endpoints = options.credential_endpoints,
               .credential_commands = options.credential_commands},
       .notifier = notifier,
       .signals = signals.get(),
       .greeter = greeter_words(options, layout)}};
  auto outcome = supervisor.run();
  remove_run_dir(layout);
  return outcome;
}

}  // namespace atl::daemon
