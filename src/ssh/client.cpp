#include "ssh/client.h"

#include "base/strings.h"
#include "ssh/channel_impl.h"

namespace atl::ssh {
namespace {

// Server keys that may be shown: those that are known, so that a server with several keys shows one
// of these.
std::string host_key_types(const ClientOptions& options) {
  std::string types;
  for (const std::string& type : options.known_hosts.key_types(options.host, options.port)) {
    types += types.empty() ? "" : ",";
    types += type == "ssh-rsa" ? "rsa-sha2-512,rsa-sha2-256" : type;
  }
  return types;
}

bool configure(ssh_session session, const ClientOptions& options, const std::string& types,
               int fd) {
  bool no_configuration_file = false;
  int min_rsa_bits = kMinRsaKeyBits;
  const unsigned port = options.port;
  return ::ssh_options_set(session, SSH_OPTIONS_PROCESS_CONFIG, &no_configuration_file) == SSH_OK &&
         ::ssh_options_set(session, SSH_OPTIONS_HOST, options.host.c_str()) == SSH_OK &&
         ::ssh_options_set(session, SSH_OPTIONS_PORT, &port) == SSH_OK &&
         ::ssh_options_set(session, SSH_OPTIONS_USER, options.user.c_str()) == SSH_OK &&
         ::ssh_options_set(session, SSH_OPTIONS_SSH_DIR, "/nonexistent") == SSH_OK &&
         ::ssh_options_set(session, SSH_OPTIONS_KNOWNHOSTS, "/dev/null") == SSH_OK &&
         ::ssh_options_set(session, SSH_OPTIONS_GLOBAL_KNOWNHOSTS, "/dev/null") == SSH_OK &&
         ::ssh_options_set(session, SSH_OPTIONS_KEY_EXCHANGE, kClientExchanges) == SSH_OK &&
         ::ssh_options_set(session, SSH_OPTIONS_CIPHERS_C_S, kCiphers) == SSH_OK &&
         ::ssh_options_set(session, SSH_OPTIONS_CIPHERS_S_C, kCiphers) == SSH_OK &&
         ::ssh_options_set(session, SSH_OPTIONS_HMAC_C_S, kCodes) == SSH_OK &&
         ::ssh_options_set(session, SSH_OPTIONS_HMAC_S_C, kCodes) == SSH_OK &&
         ::ssh_options_set(session, SSH_OPTIONS_HOSTKEYS, types.c_str()) == SSH_OK &&
         ::ssh_options_set(session, SSH_OPTIONS_PUBLICKEY_ACCEPTED_TYPES, kKeyTypes) == SSH_OK &&
         ::ssh_options_set(session, SSH_OPTIONS_RSA_MIN_SIZE, &min_rsa_bits) == SSH_OK &&
         ::ssh_options_set(session, SSH_OPTIONS_FD, &fd) == SSH_OK;
}

Result<> verify_server(ssh_session session, const ClientOptions& options) {
  ssh_key key = nullptr;
  if (::ssh_get_server_publickey(session, &key) != SSH_OK) {
    return fail(Code::kPermissionDenied, "the SSH server showed no host key");
  }
  const KeyHandle handle{key};
  TRY(const std::string blob, key_blob(key));
  return options.known_hosts.verify(options.host, options.port, blob);
}

Task<> log_in(Link& link, const ClientOptions& options) {
  const auto connect = [&link] { return ::ssh_connect(link.session()); };
  CO_TRY(const int connected, co_await link.repeat(connect, SSH_AGAIN));
  if (connected != SSH_OK) {
    co_return link.over_error();
  }
  CO_TRY_DO(verify_server(link.session(), options));
  CO_TRY(const KeyHandle key, import_private_key(options.private_key, options.passphrase));
  const auto prove = [&link, &key] {
    return ::ssh_userauth_publickey(link.session(), nullptr, key.get());
  };
  CO_TRY(const int proven, co_await link.repeat(prove, SSH_AUTH_AGAIN));
  if (proven != SSH_AUTH_SUCCESS) {
    co_return fail(Code::kUnauthenticated,
                   concat("the SSH server does not accept the stored key for user ", options.user));
  }
  co_return link.start_events();
}

}  // namespace

Client::Client(std::unique_ptr<Link> link) : link_(std::move(link)) {}
Client::~Client() = default;

Task<std::unique_ptr<Client>> Client::connect(io::Reactor& reactor, Fd connection,
                                              ClientOptions options) {
  const std::string types = host_key_types(options);
  if (types.empty()) {
    co_return fail(Code::kPermissionDenied,
                   concat("no host key is known for ", options.host, " port ", options.port));
  }
  SessionHandle session{::ssh_new()};
  if (!session) {
    co_return fail(Code::kResourceExhausted, "no memory for an SSH session");
  }
  CO_TRY(Fd theirs, connection.duplicate());
  if (!configure(session.get(), options, types, theirs.get())) {
    co_return fail(Code::kInternal, concat("configuring SSH: ", last_error(session.get())));
  }
  (void)theirs.release();
  auto link = std::make_unique<Link>(reactor, std::move(connection), std::move(session));
  CO_TRY_DO(co_await with_deadline(options.login_time, log_in(*link, options)));
  co_return std::unique_ptr<Client>{new Client{std::move(link)}};
}

Task<> Client::run() {
  return link_->pump();
}

Task<std::unique_ptr<Channel>> Client::open_session() {
  ssh_channel handle = ::ssh_channel_new(link_->session());
  if (handle == nullptr) {
    co_return fail(Code::kResourceExhausted, "no memory for an SSH channel");
  }
  auto channel = std::make_unique<Channel>(std::make_unique<Channel::Impl>(*link_, handle));
  for (;;) {
    if (link_->over()) {
      co_return link_->over_error();
    }
    const int outcome = ::ssh_channel_open_session(handle);
    link_->touched();
    if (outcome == SSH_OK) {
      co_return std::move(channel);
    }
    if (outcome != SSH_AGAIN) {
      co_return fail(Code::kUnavailable, "the SSH server opens no channel");
    }
    CO_TRY_DO(co_await link_->turned());
  }
}

}  // namespace atl::ssh
