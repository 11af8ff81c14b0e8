#include "daemon/options.h"

#include <unistd.h>

#include <filesystem>
#include <optional>

#include "base/strings.h"
#include "control/public_names.h"
#include "daemon/arguments.h"
#include "http/cors.h"
#include "s3/endpoint.h"

namespace atl::daemon {
namespace {

constexpr std::uint64_t kMaxNumber = INT32_MAX;

Result<LogFormat> parse_log(const std::string& text) {
  if (text == "json") {
    return LogFormat::kJson;
  }
  if (text == "text") {
    return LogFormat::kText;
  }
  return fail(Code::kInvalidArgument, "--log is json or text");
}

Result<int> parse_fd(const Arguments& arguments, std::string_view name) {
  if (!arguments.has(name)) {
    return -1;
  }
  TRY(const std::uint64_t fd, arguments.number(name, 0, kMaxNumber));
  return static_cast<int>(fd);
}

// The children may be elsewhere.
std::string absolute_path(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).string();
}

constexpr std::string_view kCommonNames[] = {"data-dir", "run-dir",    "instance", "uid",     "gid",
                                             "log",      "supervisor", "ready-fd", "fault-fd"};

std::vector<std::string_view> with_common(std::vector<std::string_view> names) {
  names.insert(names.end(), std::begin(kCommonNames), std::end(kCommonNames));
  return names;
}

Result<ChildOptions> parse_common(const Arguments& arguments) {
  ChildOptions options;
  options.data_dir = arguments.text("data-dir");
  options.run_dir = arguments.text("run-dir");
  options.instance = arguments.text("instance");
  TRY(const std::uint64_t uid, arguments.number("uid", 0, kMaxNumber));
  TRY(const std::uint64_t gid, arguments.number("gid", 0, kMaxNumber));
  TRY(const std::uint64_t supervisor, arguments.number("supervisor", 0, kMaxNumber));
  TRY(options.log, parse_log(arguments.text("log", "text")));
  TRY(options.ready_fd, parse_fd(arguments, "ready-fd"));
  TRY(options.fault_fd, parse_fd(arguments, "fault-fd"));
  options.uid = static_cast<uid_t>(uid);
  options.gid = static_cast<gid_t>(gid);
  options.supervisor = static_cast<pid_t>(supervisor);
  if (options.data_dir.empty() || options.run_dir.empty() || options.instance.empty() || uid == 0 ||
      gid == 0 || options.ready_fd < 0 || supervisor == 0) {
    return fail(Code::kInvalidArgument,
                "this is an internal command of `atoll serve`; run that instead");
  }
  return options;
}

void add(std::vector<std::string>& words, const char* name, std::string value) {
  words.emplace_back(name);
  words.push_back(std::move(value));
}

std::vector<std::string> common_words(const char* command, const ChildOptions& options) {
  std::vector<std::string> words{command,
                                 "--data-dir",
                                 options.data_dir,
                                 "--run-dir",
                                 options.run_dir,
                                 "--instance",
                                 options.instance,
                                 "--uid",
                                 concat(options.uid),
                                 "--gid",
                                 concat(options.gid),
                                 "--log",
                                 options.log == LogFormat::kJson ? "json" : "text",
                                 "--supervisor",
                                 concat(options.supervisor),
                                 "--ready-fd",
                                 concat(options.ready_fd)};
  if (options.fault_fd >= 0) {
    add(words, "--fault-fd", concat(options.fault_fd));
  }
  return words;
}

// The API process binds it, and has no privileges.
Result<> check_ssh_listen(const std::string& text) {
  if (text.empty()) {
    return {};
  }
  constexpr std::uint16_t kFirstUnprivilegedPort = 1024;
  TRY(const ListenAddress address, parse_listen_address("--ssh-listen", text));
  if (address.port != 0 && address.port < kFirstUnprivilegedPort) {
    return fail(Code::kInvalidArgument,
                "--ssh-listen needs a port from 1024 on, like 2222: the process behind it has no "
                "privileges");
  }
  return {};
}

}  // namespace

Result<ListenAddress> parse_listen_address(std::string_view option, const std::string& text) {
  const auto colon = text.rfind(':');
  const auto port =
      colon == text.npos ? std::nullopt : parse_u64(std::string_view{text}.substr(colon + 1));
  if (!port || *port > UINT16_MAX) {
    return fail(Code::kInvalidArgument,
                concat(option, " ", text, ": expected ADDRESS:PORT, like 127.0.0.1:7070"));
  }
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.contains(':')) {
    return fail(Code::kInvalidArgument,
                concat(option, " ", text, ": write an IPv6 address in brackets, like [::1]:7070"));
  }
  return ListenAddress{host.empty() ? "0.0.0.0" : host, static_cast<std::uint16_t>(*port)};
}

Result<ServeOptions> parse_serve(std::span<char* const> words) {
  TRY(const Arguments arguments, Arguments::parse(words,
                                                  {"data-dir",
                                                   "listen",
                                                   "cache-dir",
                                                   "user",
                                                   "log",
                                                   "pool-size",
                                                   "guest-binary",
                                                   "criu-dir",
                                                   "dump-after",
                                                   "prepared-max",
                                                   "prepared-memory",
                                                   "tls-cert",
                                                   "tls-key",
                                                   "cors-origin",
                                                   "fault-plan",
                                                   "secrets-key",
                                                   "allow-s3-endpoint",
                                                   "approval-timeout",
                                                   "egress-roots",
                                                   "egress-connections",
                                                   "egress-bandwidth",
                                                   "domain",
                                                   "public-url",
                                                   "ssh-listen",
                                                   "operator-policy",
                                                   "allow-credential-endpoint",
                                                   "credential-commands"},
                                                  {"dns-upstream", "open-egress"}));
  ServeOptions options;
  options.data_dir = arguments.text("data-dir", options.data_dir);
  options.cache_dir = arguments.text("cache-dir");
  options.user = arguments.text("user");
  options.guest_binary = arguments.text("guest-binary");
  options.fault_plan = arguments.text("fault-plan");
  TRY(auto listen, parse_listen_address("--listen", arguments.text("listen", "127.0.0.1:7070")));
  options.host = std::move(listen.host);
  options.port = listen.port;
  options.ssh_listen = arguments.text("ssh-listen");
  TRY_DO(check_ssh_listen(options.ssh_listen));
  TRY(options.log,
      parse_log(arguments.text("log", ::isatty(STDERR_FILENO) == 1 ? "text" : "json")));
  options.criu_dir = arguments.text("criu-dir", options.criu_dir);
  if (arguments.has("dump-after")) {
    TRY(const std::uint64_t seconds, arguments.number("dump-after", 0, kMaxDumpAfterSeconds));
    options.dump_after_seconds = static_cast<std::int64_t>(seconds);
  }
  if (arguments.has("prepared-max")) {
    TRY(options.prepared_max, arguments.number("prepared-max", 0, control::kMaxIdle));
  }
  if (arguments.has("prepared-memory")) {
    const auto bytes = parse_quantity(arguments.text("prepared-memory"));
    if (!bytes || *bytes == 0) {
      return fail(Code::kInvalidArgument, "--prepared-memory is a size, like 512Mi");
    }
    options.prepared_memory = *bytes;
  }
  if (arguments.has("approval-timeout")) {
    TRY(const std::uint64_t seconds, arguments.number("approval-timeout", 1, kMaxApprovalSeconds));
    options.approval_timeout_seconds = static_cast<std::int64_t>(seconds);
  }
  options.tls_certificate = arguments.text("tls-cert");
  options.tls_key = arguments.text("tls-key");
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    return fail(Code::kInvalidArgument, "--tls-cert and --tls-key are given together");
  }
  options.cors_origin = arguments.text("cors-origin", options.cors_origin);
  TRY_DO(http::parse_cors_policy(options.cors_origin));
  options.secrets_key = arguments.text("secrets-key");
  options.s3_endpoints = arguments.text("allow-s3-endpoint");
  if (auto policy = s3::EndpointPolicy::parse(options.s3_endpoints); !policy) {
    return fail(std::move(policy.error()).note("--allow-s3-endpoint"));
  }
  TRY(options.egress, parse_egress(arguments));
  options.domain = arguments.text("domain");
  options.public_url = arguments.text("public-url");
  TRY_DO(control::make_public_names(options.domain, options.public_url, options.host, options.port,
                                    false));
  options.credential_endpoints = arguments.text("allow-credential-endpoint");
  if (auto policy = s3::EndpointPolicy::parse(options.credential_endpoints); !policy) {
    return fail(std::move(policy.error()).note("--allow-credential-endpoint"));
  }
  options.operator_policy = absolute_path(arguments.text("operator-policy"));
  options.credential_commands = absolute_path(arguments.text("credential-commands"));
  if (arguments.has("pool-size")) {
    const auto bytes = parse_quantity(arguments.text("pool-size"));
    if (!bytes || *bytes == 0) {
      return fail(Code::kInvalidArgument, "--pool-size is a size, like 50Gi");
    }
    options.pool_bytes = *bytes;
  }
  return options;
}

Result<NodeOptions> parse_node(std::span<char* const> words) {
  TRY(const Arguments arguments,
      Arguments::parse(
          words, with_common({"cache-dir", "guest-binary", "criu-dir", "pool-bytes", "lock-fd"})));
  NodeOptions options;
  TRY(options.common, parse_common(arguments));
  options.cache_dir = arguments.text("cache-dir");
  options.guest_binary = arguments.text("guest-binary");
  options.criu_dir = arguments.text("criu-dir");
  TRY(options.pool_bytes, arguments.number("pool-bytes", 0, INT64_MAX));
  TRY(options.lock_fd, parse_fd(arguments, "lock-fd"));
  return options;
}

Result<ApiOptions> parse_api(std::span<char* const> words) {
  TRY(const Arguments arguments, Arguments::parse(words,
                                                  with_common({"host",
                                                               "port",
                                                               "listen-fd",
                                                               "admin-fd",
                                                               "tls-fd",
                                                               "cors-origin",
                                                               "dump-after",
                                                               "prepared-max",
                                                               "prepared-memory",
                                                               "secrets-fd",
                                                               "allow-s3-endpoint",
                                                               "approval-timeout",
                                                               "egress-roots-fd",
                                                               "egress-connections",
                                                               "egress-bandwidth",
                                                               "domain",
                                                               "public-url",
                                                               "ssh-listen",
                                                               "operator-policy",
                                                               "allow-credential-endpoint",
                                                               "credential-commands"}),
                                                  {"dns-upstream", "open-egress"}));
  ApiOptions options;
  TRY(options.common, parse_common(arguments));
  options.host = arguments.text("host");
  TRY(const std::uint64_t port, arguments.number("port", 0, UINT16_MAX));
  options.port = static_cast<std::uint16_t>(port);
  TRY(options.listen_fd, parse_fd(arguments, "listen-fd"));
  TRY(options.admin_fd, parse_fd(arguments, "admin-fd"));
  TRY(options.tls_fd, parse_fd(arguments, "tls-fd"));
  options.cors_origin = arguments.text("cors-origin", options.cors_origin);
  TRY(const std::uint64_t dump_after, arguments.number("dump-after", 0, kMaxDumpAfterSeconds));
  options.dump_after_seconds = static_cast<std::int64_t>(dump_after);
  TRY(options.prepared_max, arguments.number("prepared-max", 0, control::kMaxIdle));
  TRY(options.prepared_memory, arguments.number("prepared-memory", 0, INT64_MAX));
  TRY(const std::uint64_t approval_timeout,
      arguments.number("approval-timeout", 1, kMaxApprovalSeconds));
  options.approval_timeout_seconds = static_cast<std::int64_t>(approval_timeout);
  TRY(options.secrets_fd, parse_fd(arguments, "secrets-fd"));
  options.s3_endpoints = arguments.text("allow-s3-endpoint");
  TRY(options.egress, parse_egress(arguments));
  TRY(options.egress.roots_fd, parse_fd(arguments, "egress-roots-fd"));
  options.domain = arguments.text("domain");
  options.public_url = arguments.text("public-url");
  options.ssh_listen = arguments.text("ssh-listen");
  options.operator_policy = arguments.text("operator-policy");
  options.credential_endpoints = arguments.text("allow-credential-endpoint");
  options.credential_commands = arguments.text("credential-commands");
  return options;
}

std::vector<std::string> to_words(const NodeOptions& options) {
  auto words = common_words("node", options.common);
  add(words, "--cache-dir", options.cache_dir);
  add(words, "--guest-binary", options.guest_binary);
  add(words, "--criu-dir", options.criu_dir);
  add(words, "--pool-bytes", concat(options.pool_bytes));
  add(words, "--lock-fd", concat(options.lock_fd));
  return words;
}

std::vector<std::string> to_words(const ApiOptions& options) {
  auto words = common_words("api", options.common);
  add(words, "--host", options.host);
  add(words, "--port", concat(options.port));
  if (options.listen_fd >= 0) {
    add(words, "--listen-fd", concat(options.listen_fd));
  }
  add(words, "--admin-fd", concat(options.admin_fd));
  add(words, "--cors-origin", options.cors_origin);
  add(words, "--dump-after", concat(options.dump_after_seconds));
  add(words, "--prepared-max", concat(options.prepared_max));
  add(words, "--prepared-memory", concat(options.prepared_memory));
  add(words, "--approval-timeout", concat(options.approval_timeout_seconds));
  add(words, "--secrets-fd", concat(options.secrets_fd));
  for (const auto& [name, value] : {std::pair{"--allow-s3-endpoint", options.s3_endpoints},
                                    {"--operator-policy", options.operator_policy},
                                    {"--allow-credential-endpoint", options.credential_endpoints},
                                    {"--credential-commands", options.credential_commands}}) {
    if (!value.empty()) {
      add(words, name, value);
    }
  }
  if (!options.domain.empty()) {
    add(words, "--domain", options.domain);
  }
  if (!options.public_url.empty()) {
    add(words, "--public-url", options.public_url);
  }
  if (!options.ssh_listen.empty()) {
    add(words, "--ssh-listen", options.ssh_listen);
  }
  if (options.tls_fd >= 0) {
    add(words, "--tls-fd", concat(options.tls_fd));
  }
  append_words(options.egress, words);
  return words;
}

}  // namespace atl::daemon
