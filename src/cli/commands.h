// One function per command; each lives in command_<name>.cpp.
//
// A command returns the exit status of the process, or an Error that main() reports with a hint and
// turns into a status. Commands other than run and exec are cancelled by the first signal.
#pragma once

#include "base/task.h"
#include "cli/cli.h"
#include "cli/console.h"
#include "cli/endpoint.h"
#include "cli/options.h"
#include "io/reactor.h"
#include "io/stream.h"

namespace atl::cli {

// What every command works with; all of it outlives the command.
struct CommandContext {
  io::Reactor& reactor;
  const Endpoint& endpoint;
  const Console& console;
  const GlobalOptions& options;
  const Environment& environment;
  io::SignalWatch& signals;  // SIGINT, SIGTERM, SIGHUP
};

Task<int> command_run(CommandContext& context, const RunOptions& options);
Task<int> command_exec(CommandContext& context, const ExecOptions& options);
Task<int> command_create(CommandContext& context, const CreateOptions& options);
Task<int> command_update(CommandContext& context, const UpdateOptions& options);
Task<int> command_stats(CommandContext& context, const StatsOptions& options);
Task<int> command_watch(CommandContext& context, const WatchOptions& options);
Task<int> command_list(CommandContext& context, const ListOptions& options);
Task<int> command_inspect(CommandContext& context, const InspectOptions& options);
Task<int> command_remove(CommandContext& context, const RemoveOptions& options);
Task<int> command_pause(CommandContext& context, const PauseOptions& options);
Task<int> command_resume(CommandContext& context, const ResumeOptions& options);
Task<int> command_snapshot(CommandContext& context, const SnapshotOptions& options);
Task<int> command_fork(CommandContext& context, const ForkOptions& options);
Task<int> command_tree(CommandContext& context, const TreeOptions& options);
Task<int> command_diff(CommandContext& context, const DiffOptions& options);
Task<int> command_export(CommandContext& context, const ExportOptions& options);
Task<int> command_import(CommandContext& context, const ImportOptions& options);
Task<int> command_volume(CommandContext& context, const VolumeOptions& options);
Task<int> command_network(CommandContext& context, const NetworkOptions& options);
Task<int> command_credential(CommandContext& context, const CredentialOptions& options);
Task<int> command_net(CommandContext& context, const NetOptions& options);
Task<int> command_why(CommandContext& context, const WhyOptions& options);
Task<int> command_approvals(CommandContext& context, const ApprovalsOptions& options);
Task<int> command_service(CommandContext& context, const ServiceOptions& options);
Task<int> command_preview(CommandContext& context, const PreviewOptions& options);
Task<int> command_expose(CommandContext& context, const ExposeOptions& options);
Task<int> command_copy(CommandContext& context, const CopyOptions& options);
Task<int> command_cert_dev(CommandContext& context, const CertDevOptions& options);
Task<int> command_template(CommandContext& context, const TemplateOptions& options);
Task<int> command_shell(CommandContext& context, const ShellOptions& options);
Task<int> command_repl(CommandContext& context, const ReplOptions& options);
Task<int> command_ssh(CommandContext& context, const SshOptions& options);
Task<int> command_logs(CommandContext& context, const LogsOptions& options);
Task<int> command_files(CommandContext& context, const FilesOptions& options);
Task<int> command_dev(CommandContext& context, const DevOptions& options);
Task<int> command_completion(CommandContext& context, const CompletionOptions& options);
Task<int> command_complete(CommandContext& context, const CompleteOptions& options);
Task<int> command_doctor(CommandContext& context, const DoctorOptions& options);
Task<int> command_version(CommandContext& context, const VersionOptions& options);

}  // namespace atl::cli
