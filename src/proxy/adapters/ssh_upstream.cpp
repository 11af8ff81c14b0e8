#include "proxy/adapters/ssh_upstream.h"

#include "base/strings.h"

namespace atl::proxy::adapters {
namespace {

using Request = ssh::ChannelRequest;

// What the audit says about a request; empty: nothing.
std::string operation(const Request& request) {
  std::string text;
  switch (request.kind) {
    case Request::Kind::kExec:
      append_printable(text, request.text);
      return concat("exec ", text);
    case Request::Kind::kSubsystem:
      append_printable(text, request.text);
      return concat("subsystem ", text);
    case Request::Kind::kShell:
      return "shell";
    default:
      return {};
  }
}

class SessionRelay {
 public:
  SessionRelay(ssh::Channel& client, ssh::Channel& upstream, FlowAccount& account)
      : client_(client), upstream_(upstream), account_(account) {}

  // Until the upstream has closed its channel, or the client its own.
  Task<> run() {
    TaskContext& outer = co_await current_context();
    CancelState leave{outer.cancel};
    TaskContext inner{outer.loop, &leave};
    Scope beside{outer};
    beside.on_error([](const char*, const Error&) {});
    beside.spawn("ssh requests", forward_requests(leave));
    beside.spawn("ssh input", forward_input());
    auto ended = co_await forward_output().under(inner);
    (void)co_await beside.cancel_and_join();
    co_return std::move(ended);
  }

 private:
  Task<> forward_requests(CancelState& leave) {
    for (;;) {
      auto request = co_await client_.next_request();
      if (!request) {
        leave.cancel();
        co_return fail(std::move(request).error());
      }
      if (std::string text = operation(*request); !text.empty()) {
        account_.add_operation(std::move(text));
      }
      // Agents and displays stay where they are.
      if (request->kind == Request::Kind::kOther) {
        client_.answer(false);
        continue;
      }
      const auto done = co_await upstream_.request(*std::move(request));
      client_.answer(done && *done);
    }
  }

  Task<> forward_input() {
    std::string buffer(kRelayBytes, '\0');
    for (;;) {
      CO_TRY(const std::size_t got, co_await client_.read(buffer));
      if (got == 0) {
        co_return upstream_.finish_writing();
      }
      CO_TRY_DO(co_await upstream_.write(std::string_view{buffer}.substr(0, got)));
    }
  }

  Task<> forward_stream(bool error) {
    std::string buffer(kRelayBytes, '\0');
    for (;;) {
      auto got = co_await (error ? upstream_.read_error(buffer) : upstream_.read(buffer));
      if (!got || *got == 0) {
        co_return ok();  // whether it was the end is asked once, by the one who waits for it
      }
      const auto bytes = std::string_view{buffer}.substr(0, *got);
      auto written = co_await (error ? client_.write_error(bytes) : client_.write(bytes));
      CO_TRY_DO(std::move(written));
    }
  }

  Task<> forward_output() {
    CO_TRY_DO(co_await both(forward_stream(false), forward_stream(true)));
    CO_TRY_DO(client_.finish_writing());
    CO_TRY_DO(co_await upstream_.wait_closed());
    if (upstream_.exit()) {
      client_.send_exit(*upstream_.exit());
    }
    co_return co_await client_.flush();
  }

  ssh::Channel& client_;
  ssh::Channel& upstream_;
  FlowAccount& account_;
};

}  // namespace

SshUpstream::SshUpstream(Surroundings& surroundings, const Connection& connection,
                         const Injection& injection, ssh::KnownHosts known_hosts, Scope& scope)
    : surroundings_(surroundings),
      connection_(connection),
      injection_(injection),
      known_hosts_(std::move(known_hosts)),
      scope_(scope) {}
SshUpstream::~SshUpstream() = default;

Task<> SshUpstream::connect_once() {
  CO_TRY(stream_, co_await dial(surroundings_, connection_, nullptr));
  CO_TRY(bridge_, ssh::Bridge::make(surroundings_.reactor, *stream_));
  scope_.spawn("ssh upstream bridge", bridge_->run());
  const std::string& user = injection_.projection.upstream_username;
  ssh::ClientOptions options{.host = upstream_name(connection_),
                             .port = connection_.flow.port,
                             .user = user.empty() ? client_user_ : user,
                             .private_key = injection_.material->ssh_private_key_pem,
                             .passphrase = injection_.material->ssh_passphrase,
                             .known_hosts = std::move(known_hosts_)};
  CO_TRY(client_, co_await ssh::Client::connect(surroundings_.reactor, bridge_->take_descriptor(),
                                                std::move(options)));
  scope_.spawn("ssh upstream", client_->run());
  co_return ok();
}

Task<> SshUpstream::connect() {
  if (!connecting_) {
    connecting_ = true;
    outcome_ = co_await connect_once();
    if (!*outcome_) {
      connection_.account->record.reason = outcome_->error().message;
    }
    settled_.set();
  }
  CO_TRY_DO(co_await settled_.wait());
  co_return *outcome_;
}

Task<std::unique_ptr<ssh::Channel>> SshUpstream::open_session() {
  CO_TRY_DO(co_await connect());
  co_return co_await client_->open_session();
}

Task<> relay_session(ssh::Channel& client, ssh::Channel& upstream, FlowAccount& account) {
  SessionRelay session{client, upstream, account};
  co_return co_await session.run();
}

}  // namespace atl::proxy::adapters
