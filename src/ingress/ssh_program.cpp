#include "ingress/ssh_program.h"

#include <array>

#include "base/random.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/guest_client.h"

namespace atl::ingress {
namespace {

constexpr Duration kWakeTime = std::chrono::seconds{60};
constexpr std::size_t kInputBytes = std::size_t{32} * 1024;
constexpr int kBrokenStatus = 255;  // ssh's own word for "it did not come to that"
constexpr int kSignalBase = 128;

struct SignalName {
  std::uint32_t number;
  std::string_view name;
};
// Those that the protocol has names for.
constexpr std::array<SignalName, 13> kSignalNames{{{6, "ABRT"},
                                                   {14, "ALRM"},
                                                   {8, "FPE"},
                                                   {1, "HUP"},
                                                   {4, "ILL"},
                                                   {2, "INT"},
                                                   {9, "KILL"},
                                                   {13, "PIPE"},
                                                   {3, "QUIT"},
                                                   {11, "SEGV"},
                                                   {15, "TERM"},
                                                   {10, "USR1"},
                                                   {12, "USR2"}}};

ssh::Exit exit_of(const guest::ExitStatus& status) {
  if (status.exited) {
    return {.status = static_cast<int>(status.exit_code), .signal = {}};
  }
  for (const SignalName& row : kSignalNames) {
    if (row.number == status.signal) {
      return {.status = std::nullopt, .signal = std::string{row.name}};
    }
  }
  return {.status = kSignalBase + static_cast<int>(status.signal), .signal = {}};
}

guest::SpawnRequest spawn_request(const control::RunningSandbox& running, ProgramRequest program) {
  control::StringMap env = std::move(program.env);
  env.insert(running.env.begin(), running.env.end());
  guest::SpawnRequest spawn{.process_id = concat("ssh-", random_hex(12)),
                            .argv = std::move(program.command),
                            .cwd = running.cwd,
                            .user = running.user,
                            .stdin_open = true,
                            .pty = program.terminal,
                            .keep = false};
  for (const auto& [name, value] : env) {
    spawn.env.push_back(concat(name, "=", value));
  }
  return spawn;
}

// Everything around one program while it runs.
class Running {
 public:
  Running(control::GuestClient client, std::string id, control::ProcessStream& stream,
          ssh::Channel& channel)
      : client_(std::move(client)), id_(std::move(id)), stream_(stream), channel_(channel) {}

  // Until the program has ended; fails when the channel was closed before.
  Task<> run() {
    TaskContext& outer = co_await current_context();
    CancelState leave{outer.cancel};
    TaskContext inner{outer.loop, &leave};
    Scope beside{outer};
    beside.on_error([](const char*, const Error&) {});
    beside.spawn("ssh input", forward_input());
    beside.spawn("ssh requests", follow_requests(leave));
    auto ended = co_await forward_output().under(inner);
    (void)co_await beside.cancel_and_join();
    co_return std::move(ended);
  }

 private:
  Task<> forward_input() {
    std::string buffer(kInputBytes, '\0');
    for (;;) {
      CO_TRY(const std::size_t got, co_await channel_.read(buffer));
      if (got == 0) {
        co_return co_await stream_.end_input();
      }
      CO_TRY_DO(co_await stream_.send_input(std::string_view{buffer}.substr(0, got)));
    }
  }

  Task<> follow_requests(CancelState& leave) {
    using Kind = ssh::ChannelRequest::Kind;
    for (;;) {
      auto request = co_await channel_.next_request();
      if (!request) {
        leave.cancel();  // nobody is there any more
        co_return fail(std::move(request).error());
      }
      if (request->kind == Kind::kResize && request->rows > 0 && request->columns > 0) {
        channel_.answer(true);
        (void)co_await stream_.resize({.rows = request->rows, .columns = request->columns});
      } else if (request->kind == Kind::kSignal) {
        if (const auto number = control::parse_signal(request->text)) {
          (void)co_await client_.signal_process({.process_id = id_, .signal = *number});
        }
      }
    }
  }

  Task<> forward_output() {
    for (;;) {
      CO_TRY(const auto event, co_await stream_.next());
      if (const auto* status = std::get_if<guest::ExitStatus>(&event)) {
        channel_.send_exit(exit_of(*status));
        co_return co_await channel_.flush();
      }
      const auto& output = std::get<guest::Output>(event);
      if (output.header.stream == guest::Stream::kStderr) {
        CO_TRY_DO(co_await channel_.write_error(output.bytes));
      } else {
        CO_TRY_DO(co_await channel_.write(output.bytes));
      }
    }
  }

  const control::GuestClient client_;
  const std::string id_;
  control::ProcessStream& stream_;
  ssh::Channel& channel_;
};

Task<> run_in(io::Reactor& reactor, control::Sandboxes& sandboxes, control::SandboxRef sandbox,
              ProgramRequest program, ssh::Channel& channel) {
  CO_TRY(const auto running,
         co_await with_deadline(kWakeTime, sandboxes.running(sandbox.team_id, sandbox.sandbox_id)));
  const control::GuestClient client{reactor, running.guest_socket};
  auto spawn = spawn_request(running, std::move(program));
  const std::string id = spawn.process_id;
  CO_TRY(const auto stream, co_await client.spawn(std::move(spawn)));
  Running everything{client, id, *stream, channel};
  co_return co_await everything.run();
}

}  // namespace

Task<> run_program(io::Reactor& reactor, control::Sandboxes& sandboxes, control::SandboxRef sandbox,
                   ProgramRequest program, ssh::Channel& channel) {
  const auto use = sandboxes.use(sandbox.team_id, sandbox.sandbox_id);
  const bool terminal = program.terminal.has_value();
  auto ended = co_await run_in(reactor, sandboxes, std::move(sandbox), std::move(program), channel);
  if (!ended && !channel.closed()) {
    std::string text = "atoll: ";
    append_printable(text, ended.error().message);
    text += terminal ? "\r\n" : "\n";
    CO_TRY_DO(co_await channel.write_error(text));
    channel.send_exit({.status = kBrokenStatus, .signal = {}});
    CO_TRY_DO(co_await channel.flush());
  }
  co_return std::move(ended);
}

}  // namespace atl::ingress
