#include "cli/cli.h"

#include <csignal>

#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/commands.h"
#include "cli/execute.h"
#include "cli/help.h"
#include "cli/interrupts.h"
#include "cli/limits.h"
#include "cli/parse.h"

namespace atl::cli {
namespace {

constexpr int kBrokenPipeStatus = 128 + SIGPIPE;

// These listen to signals themselves and have statuses of their own.
bool runs_a_command(const Command& command) {
  return std::holds_alternative<RunOptions>(command) ||
         std::holds_alternative<ExecOptions>(command) ||
         std::holds_alternative<ShellOptions>(command) ||
         std::holds_alternative<ReplOptions>(command);
}

// These say something useful also without a server.
bool needs_no_server(const Command& command) {
  return std::holds_alternative<DoctorOptions>(command) ||
         std::holds_alternative<CompletionOptions>(command) ||
         std::holds_alternative<CompleteOptions>(command) ||
         std::holds_alternative<CertDevOptions>(command) ||
         std::holds_alternative<VersionOptions>(command);
}

struct Dispatch {
  CommandContext& context;
  Task<int> operator()(const RunOptions& options) { return command_run(context, options); }
  Task<int> operator()(const ExecOptions& options) { return command_exec(context, options); }
  Task<int> operator()(const CreateOptions& options) { return command_create(context, options); }
  Task<int> operator()(const UpdateOptions& options) { return command_update(context, options); }
  Task<int> operator()(const StatsOptions& options) { return command_stats(context, options); }
  Task<int> operator()(const WatchOptions& options) { return command_watch(context, options); }
  Task<int> operator()(const ListOptions& options) { return command_list(context, options); }
  Task<int> operator()(const InspectOptions& options) { return command_inspect(context, options); }
  Task<int> operator()(const RemoveOptions& options) { return command_remove(context, options); }
  Task<int> operator()(const PauseOptions& options) { return command_pause(context, options); }
  Task<int> operator()(const ResumeOptions& options) { return command_resume(context, options); }
  Task<int> operator()(const SnapshotOptions& options) {
    return command_snapshot(context, options);
  }
  Task<int> operator()(const ForkOptions& options) { return command_fork(context, options); }
  Task<int> operator()(const TreeOptions& options) { return command_tree(context, options); }
  Task<int> operator()(const DiffOptions& options) { return command_diff(context, options); }
  Task<int> operator()(const ExportOptions& options) { return command_export(context, options); }
  Task<int> operator()(const ImportOptions& options) { return command_import(context, options); }
  Task<int> operator()(const NetOptions& options) { return command_net(context, options); }
  Task<int> operator()(const WhyOptions& options) { return command_why(context, options); }
  Task<int> operator()(const ApprovalsOptions& options) {
    return command_approvals(context, options);
  }
  Task<int> operator()(const VolumeOptions& options) { return command_volume(context, options); }
  Task<int> operator()(const ServiceOptions& options) { return command_service(context, options); }
  Task<int> operator()(const PreviewOptions& options) { return command_preview(context, options); }
  Task<int> operator()(const ExposeOptions& options) { return command_expose(context, options); }
  Task<int> operator()(const NetworkOptions& options) { return command_network(context, options); }
  Task<int> operator()(const CredentialOptions& options) {
    return command_credential(context, options);
  }
  Task<int> operator()(const CopyOptions& options) { return command_copy(context, options); }
  Task<int> operator()(const CertDevOptions& options) { return command_cert_dev(context, options); }
  Task<int> operator()(const TemplateOptions& options) {
    return command_template(context, options);
  }
  Task<int> operator()(const ShellOptions& options) { return command_shell(context, options); }
  Task<int> operator()(const ReplOptions& options) { return command_repl(context, options); }
  Task<int> operator()(const LogsOptions& options) { return command_logs(context, options); }
  Task<int> operator()(const SshOptions& options) { return command_ssh(context, options); }
  Task<int> operator()(const FilesOptions& options) { return command_files(context, options); }
  Task<int> operator()(const DevOptions& options) { return command_dev(context, options); }
  Task<int> operator()(const CompletionOptions& options) {
    return command_completion(context, options);
  }
  Task<int> operator()(const CompleteOptions& options) {
    return command_complete(context, options);
  }
  Task<int> operator()(const DoctorOptions& options) { return command_doctor(context, options); }
  Task<int> operator()(const VersionOptions& options) { return command_version(context, options); }
};

Task<int> run_interruptible(CommandContext& context, Task<int> command) {
  Interrupts interrupts{co_await current_context(), context, 0};
  auto status = co_await std::move(command).under(interrupts.work());
  (void)co_await interrupts.finish();
  if (!status && interrupts.gave_up()) {
    co_return interrupts.exit_status();
  }
  co_return std::move(status);
}

int report(const World& world, const Endpoint& endpoint, const Error& error, bool of_command) {
  if (error.reason == kReasonBrokenPipe) {
    return kBrokenPipeStatus;  // as any program in a pipeline would end
  }
  world.console.report(error.message, hint_for(error, endpoint));
  return of_command ? start_failure_status(error) : code_exit_status(error.code);
}

Task<int> execute_invocation(io::Reactor& reactor, const World& world,
                             const Invocation& invocation) {
  const bool of_command = runs_a_command(invocation.command);
  auto endpoint = resolve_endpoint(invocation.global, world.lookup);
  if (!endpoint && needs_no_server(invocation.command)) {
    endpoint = Endpoint{.problem = endpoint.error().message};
  } else if (!endpoint) {
    co_return report(world, Endpoint{}, endpoint.error(), of_command);
  }
  io::SignalWatch signals{reactor, {SIGINT, SIGTERM, SIGHUP}};
  CommandContext context{.reactor = reactor,
                         .endpoint = *endpoint,
                         .console = world.console,
                         .options = invocation.global,
                         .environment = world.environment,
                         .signals = signals};
  auto command = std::visit(Dispatch{context}, invocation.command);
  Result<int> status = 0;
  if (of_command) {
    status = co_await std::move(command);
  } else {
    status = co_await run_interruptible(context, std::move(command));
  }
  co_return status ? *status : report(world, *endpoint, status.error(), of_command);
}

// A mistake in the arguments of run and exec must not look like the command's own status either.
int report_usage(const World& world, const Error& error,
                 const std::vector<std::string>& arguments) {
  const auto first = std::find_if(arguments.begin(), arguments.end(), [](const std::string& word) {
    return !help_of(word).name.empty();
  });
  if (first == arguments.end()) {
    world.console.report(error.message, "see `atoll --help`");
    return code_exit_status(error.code);
  }
  world.console.report(error.message, concat("see `atoll ", *first, " --help`"));
  static constexpr std::string_view kOwnStatus[] = {"run", "exec", "shell", "repl"};
  return std::ranges::find(kOwnStatus, *first) != std::end(kOwnStatus)
             ? kOwnFailureStatus
             : code_exit_status(error.code);
}

}  // namespace

Task<int> execute(io::Reactor& reactor, const World& world, std::vector<std::string> arguments) {
  auto parsed = parse_arguments(arguments, world.environment);
  if (!parsed) {
    co_return report_usage(world, parsed.error(), arguments);
  }
  if (const auto* help = std::get_if<HelpText>(&*parsed)) {
    world.console.print(help->text);
    co_return 0;
  }
  co_return co_await execute_invocation(reactor, world, std::get<Invocation>(*parsed));
}

int main(int argc, char** argv, const Environment& environment) {
  std::signal(SIGPIPE, SIG_IGN);
  const Console console = Console::standard();
  const EnvLookup lookup = lookup_process_env;
  const World world{.environment = environment, .console = console, .lookup = lookup};
  io::Reactor reactor;
  const auto status = reactor.run_until_complete(
      execute(reactor, world, std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc)));
  return status ? *status : kOwnFailureStatus;
}

}  // namespace atl::cli
