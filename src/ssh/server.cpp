// Messages are taken from libssh's queue and not by its callbacks: a callback has to answer at
// once, and most of our answers depend on somebody else (a sandbox that wakes up, a server
// upstream). libssh marks some of that interface as deprecated; there is no other that can wait.
#include "ssh/server.h"

#include <algorithm>
#include <list>

#include "base/log.h"
#include "base/strings.h"
#include "ssh/channel_impl.h"

#pragma clang diagnostic ignored "-Wdeprecated-declarations"

namespace atl::ssh {
namespace {

constexpr std::size_t kRelayBytes = std::size_t{32} * 1024;

Task<> channel_to_stream(Channel& channel, io::Stream& stream) {
  std::string buffer(kRelayBytes, '\0');
  for (;;) {
    CO_TRY(const std::size_t got, co_await channel.read(buffer));
    if (got == 0) {
      co_return stream.finish_writing();
    }
    CO_TRY_DO(co_await stream.write(std::string_view{buffer}.substr(0, got)));
  }
}

Task<> stream_to_channel(Channel& channel, io::Stream& stream) {
  std::string buffer(kRelayBytes, '\0');
  for (;;) {
    CO_TRY(const std::size_t got, co_await stream.read(buffer));
    if (got == 0) {
      co_return channel.finish_writing();
    }
    CO_TRY_DO(co_await channel.write(std::string_view{buffer}.substr(0, got)));
  }
}

// A channel that is gone takes nothing any more; what came from it may still get out.
Task<> end_with_channel(Channel& channel, Scope& relays) {
  CO_TRY_DO(co_await channel.wait_closed());
  CO_TRY_DO(co_await sleep_for(kFarewellTime));
  relays.cancel();
  co_return ok();
}

std::string text_of(const char* text, std::size_t max_bytes) {
  return text == nullptr ? std::string{} : std::string{std::string_view{text}.substr(0, max_bytes)};
}

std::uint32_t cells_of(int number) {
  constexpr int kMaxCells = 10'000;
  return static_cast<std::uint32_t>(std::clamp(number, 0, kMaxCells));
}

ChannelRequest read_request(ssh_message message) {
  using Kind = ChannelRequest::Kind;
  ChannelRequest request;
  switch (::ssh_message_subtype(message)) {
    case SSH_CHANNEL_REQUEST_PTY:
      request.kind = Kind::kTerminal;
      request.text = text_of(::ssh_message_channel_request_pty_term(message), kMaxUserBytes);
      request.rows = cells_of(::ssh_message_channel_request_pty_height(message));
      request.columns = cells_of(::ssh_message_channel_request_pty_width(message));
      break;
    case SSH_CHANNEL_REQUEST_WINDOW_CHANGE:
      request.kind = Kind::kResize;
      request.rows = cells_of(::ssh_message_channel_request_pty_height(message));
      request.columns = cells_of(::ssh_message_channel_request_pty_width(message));
      break;
    case SSH_CHANNEL_REQUEST_ENV:
      request.kind = Kind::kEnvironment;
      request.text = text_of(::ssh_message_channel_request_env_name(message), kMaxRequestBytes);
      request.value = text_of(::ssh_message_channel_request_env_value(message), kMaxRequestBytes);
      break;
    case SSH_CHANNEL_REQUEST_SHELL:
      request.kind = Kind::kShell;
      break;
    case SSH_CHANNEL_REQUEST_EXEC:
      request.kind = Kind::kExec;
      request.text = text_of(::ssh_message_channel_request_command(message), kMaxRequestBytes + 1);
      break;
    case SSH_CHANNEL_REQUEST_SUBSYSTEM:
      request.kind = Kind::kSubsystem;
      request.text = text_of(::ssh_message_channel_request_subsystem(message), kMaxUserBytes);
      break;
    default:
      break;
  }
  // Half a command is another command.
  if (request.text.size() > kMaxRequestBytes) {
    return {};
  }
  return request;
}

class ServerSession {
 public:
  ServerSession(io::Reactor& reactor, Fd fd, SessionHandle session, ServerHandler& handler)
      : link_(reactor, std::move(fd), std::move(session)), handler_(handler) {}

  Task<> run(Duration login_time);

 private:
  Task<> exchange_keys();
  Task<> serve_messages(bool until_login);
  Result<> take(MessageHandle message);
  Result<> take_login(MessageHandle message);
  bool judge_login(ssh_message message, bool& proven);
  void take_open(MessageHandle message);
  Result<> take_request(MessageHandle message);
  void open_session(MessageHandle message);
  Task<> serve_channel(std::shared_ptr<Channel> channel);
  Task<> forward(MessageHandle message);

  Link link_;
  ServerHandler& handler_;
  Scope* scope_ = nullptr;
  std::list<std::weak_ptr<Channel>> channels_;
  std::size_t sessions_ = 0;
  std::size_t forwards_ = 0;
  unsigned tries_ = 0;
  bool logged_in_ = false;
};

Task<> ServerSession::exchange_keys() {
  const auto step = [this] { return ::ssh_handle_key_exchange(link_.session()); };
  CO_TRY(const int outcome, co_await link_.repeat(step, SSH_AGAIN));
  if (outcome != SSH_OK) {
    co_return link_.over_error();
  }
  ::ssh_set_auth_methods(link_.session(), SSH_AUTH_METHOD_PUBLICKEY);
  co_return link_.start_events();
}

Task<> ServerSession::run(Duration login_time) {
  TaskContext& here = co_await current_context();
  const Instant deadline = here.loop->now() + login_time;
  CO_TRY_DO(co_await with_deadline(login_time, exchange_keys()));
  Scope scope{here};
  scope.on_error([](const char* what, const Error& error) {
    LOG_DEBUG("an SSH task ended", {"task", what}, {"error", error});
  });
  scope_ = &scope;
  scope.spawn("ssh connection", link_.pump());
  auto ended = co_await with_deadline(deadline - here.loop->now(), serve_messages(true));
  if (ended) {
    ended = co_await serve_messages(false);
  }
  (void)co_await scope.cancel_and_join();
  scope_ = nullptr;
  co_return std::move(ended);
}

Task<> ServerSession::serve_messages(bool until_login) {
  for (;;) {
    while (!link_.over() && !(until_login && logged_in_)) {
      MessageHandle message{::ssh_message_get(link_.session())};
      link_.touched();
      if (!message) {
        break;
      }
      CO_TRY_DO(take(std::move(message)));
    }
    if (until_login && logged_in_) {
      co_return ok();
    }
    if (link_.over()) {
      co_return link_.over_error();
    }
    CO_TRY_DO(co_await link_.turned());
  }
}

Result<> ServerSession::take(MessageHandle message) {
  switch (::ssh_message_type(message.get())) {
    case SSH_REQUEST_SERVICE:
      ::ssh_message_service_reply_success(message.get());
      break;
    case SSH_REQUEST_AUTH:
      return take_login(std::move(message));
    case SSH_REQUEST_CHANNEL_OPEN:
      take_open(std::move(message));
      break;
    case SSH_REQUEST_CHANNEL:
      return take_request(std::move(message));
    default:
      ::ssh_message_reply_default(message.get());
      break;
  }
  link_.touched();
  return {};
}

bool ServerSession::judge_login(ssh_message message, bool& proven) {
  const char* user = ::ssh_message_auth_user(message);
  if (user == nullptr || std::string_view{user}.size() > kMaxUserBytes) {
    return false;
  }
  if (::ssh_message_subtype(message) == SSH_AUTH_METHOD_NONE) {
    proven = true;
    return handler_.let_in_without_key(user);
  }
  if (::ssh_message_subtype(message) != SSH_AUTH_METHOD_PUBLICKEY) {
    return false;
  }
  const auto state = ::ssh_message_auth_publickey_state(message);
  if (state != SSH_PUBLICKEY_STATE_NONE && state != SSH_PUBLICKEY_STATE_VALID) {
    return false;
  }
  const auto blob = key_blob(::ssh_message_auth_pubkey(message));
  proven = state == SSH_PUBLICKEY_STATE_VALID;
  return blob && handler_.let_in(user, *blob);
}

Result<> ServerSession::take_login(MessageHandle message) {
  bool proven = false;
  if (logged_in_ || !judge_login(message.get(), proven)) {
    ::ssh_message_reply_default(message.get());
    link_.touched();
    if (++tries_ >= kMaxLoginTries) {
      return fail(Code::kUnauthenticated, "too many attempts to log in");
    }
    return {};
  }
  if (!proven) {
    ::ssh_message_auth_reply_pk_ok_simple(message.get());
    link_.touched();
    return {};
  }
  logged_in_ = true;
  handler_.logged_in(::ssh_message_auth_user(message.get()));
  ::ssh_message_auth_reply_success(message.get(), 0);
  link_.touched();
  return {};
}

void ServerSession::take_open(MessageHandle message) {
  const int kind = ::ssh_message_subtype(message.get());
  if (logged_in_ && kind == SSH_CHANNEL_SESSION && sessions_ < kMaxChannels) {
    open_session(std::move(message));
  } else if (logged_in_ && kind == SSH_CHANNEL_DIRECT_TCPIP && forwards_ < kMaxForwards) {
    ++forwards_;
    scope_->spawn("ssh forward", forward(std::move(message)));
  } else {
    ::ssh_message_reply_default(message.get());
  }
}

void ServerSession::open_session(MessageHandle message) {
  ssh_channel handle = ::ssh_message_channel_request_open_reply_accept(message.get());
  if (handle == nullptr) {
    return;
  }
  auto channel = std::make_shared<Channel>(std::make_unique<Channel::Impl>(link_, handle));
  channels_.remove_if([](const auto& each) { return each.expired(); });
  channels_.push_back(channel);
  ++sessions_;
  scope_->spawn("ssh channel", serve_channel(std::move(channel)));
}

Task<> ServerSession::serve_channel(std::shared_ptr<Channel> channel) {
  auto served = co_await handler_.serve_session(*channel);
  --sessions_;
  co_return std::move(served);
}

Result<> ServerSession::take_request(MessageHandle message) {
  ssh_channel handle = ::ssh_message_channel_request_channel(message.get());
  for (const auto& each : channels_) {
    const auto channel = each.lock();
    if (channel && channel->impl().handle == handle) {
      ChannelRequest request = read_request(message.get());
      (void)channel->impl().push(std::move(request), std::move(message));
      if (channel->impl().overrun) {
        return fail(Code::kResourceExhausted, "too many requests on a channel");
      }
      link_.wake();
      return {};
    }
  }
  return {};  // of a channel that is gone
}

Task<> ServerSession::forward(MessageHandle message) {
  const std::string host =
      text_of(::ssh_message_channel_request_open_destination(message.get()), kMaxUserBytes);
  const int port = ::ssh_message_channel_request_open_destination_port(message.get());
  Result<std::unique_ptr<io::Stream>> stream = fail(Code::kInvalidArgument, "no such port");
  if (port > 0 && port <= UINT16_MAX) {
    stream = co_await handler_.connect(host, static_cast<std::uint16_t>(port));
  }
  if (!stream) {
    ::ssh_message_reply_default(message.get());
    link_.touched();
    --forwards_;
    co_return fail(std::move(stream).error());
  }
  ssh_channel handle = ::ssh_message_channel_request_open_reply_accept(message.get());
  message.reset();
  link_.touched();
  if (handle == nullptr) {
    --forwards_;
    co_return link_.over_error();
  }
  Channel channel{std::make_unique<Channel::Impl>(link_, handle)};
  Scope scope{co_await current_context()};
  bool broken = false;
  scope.on_error([&scope, &broken](const char*, const Error&) {
    broken = true;
    scope.cancel();
  });
  scope.spawn("ssh forward in", channel_to_stream(channel, **stream));
  scope.spawn("ssh forward out", stream_to_channel(channel, **stream));
  Scope watching{co_await current_context()};
  watching.on_error([](const char*, const Error&) {});
  watching.spawn("ssh forward watch", end_with_channel(channel, scope));
  auto joined = co_await scope.join();
  if (!joined) {
    (void)co_await scope.cancel_and_join();
  }
  (void)co_await watching.cancel_and_join();
  --forwards_;
  co_return std::move(joined);
}

bool configure(ssh_bind bind, ssh_key key) {
  bool no_configuration_file = false;
  int min_rsa_bits = kMinRsaKeyBits;
  return ::ssh_bind_options_set(bind, SSH_BIND_OPTIONS_PROCESS_CONFIG, &no_configuration_file) ==
             SSH_OK &&
         ::ssh_bind_options_set(bind, SSH_BIND_OPTIONS_KEY_EXCHANGE, kServerExchanges) == SSH_OK &&
         ::ssh_bind_options_set(bind, SSH_BIND_OPTIONS_CIPHERS_C_S, kCiphers) == SSH_OK &&
         ::ssh_bind_options_set(bind, SSH_BIND_OPTIONS_CIPHERS_S_C, kCiphers) == SSH_OK &&
         ::ssh_bind_options_set(bind, SSH_BIND_OPTIONS_HMAC_C_S, kCodes) == SSH_OK &&
         ::ssh_bind_options_set(bind, SSH_BIND_OPTIONS_HMAC_S_C, kCodes) == SSH_OK &&
         ::ssh_bind_options_set(bind, SSH_BIND_OPTIONS_PUBKEY_ACCEPTED_KEY_TYPES, kKeyTypes) ==
             SSH_OK &&
         ::ssh_bind_options_set(bind, SSH_BIND_OPTIONS_RSA_MIN_SIZE, &min_rsa_bits) == SSH_OK &&
         ::ssh_bind_options_set(bind, SSH_BIND_OPTIONS_BANNER, "atoll") == SSH_OK &&
         ::ssh_bind_options_set(bind, SSH_BIND_OPTIONS_IMPORT_KEY, key) == SSH_OK;
}

// The session of a connection that was accepted; libssh closes `fd`.
Result<SessionHandle> accept(const std::string& host_key, Fd fd) {
  TRY(KeyHandle key, import_private_key(host_key, {}));
  const BindHandle bind{::ssh_bind_new()};
  SessionHandle session{::ssh_new()};
  if (!bind || !session) {
    return fail(Code::kResourceExhausted, "no memory for an SSH session");
  }
  if (!configure(bind.get(), key.get())) {
    return fail(Code::kInternal, concat("configuring SSH: ", last_error(bind.get())));
  }
  (void)key.release();  // the bind's now
  if (::ssh_bind_accept_fd(bind.get(), session.get(), fd.get()) != SSH_OK) {
    return fail(Code::kInternal, concat("accepting an SSH connection: ", last_error(bind.get())));
  }
  (void)fd.release();
  return session;
}

}  // namespace

Task<std::unique_ptr<io::Stream>> ServerHandler::connect(std::string, std::uint16_t) {
  co_return fail(Code::kPermissionDenied, "forwarding is not allowed here");
}

Task<> serve(io::Reactor& reactor, Fd connection, ServerOptions options, ServerHandler& handler) {
  CO_TRY(Fd theirs, connection.duplicate());
  CO_TRY(auto session, accept(options.host_key, std::move(theirs)));
  ServerSession server{reactor, std::move(connection), std::move(session), handler};
  co_return co_await server.run(options.login_time);
}

}  // namespace atl::ssh
