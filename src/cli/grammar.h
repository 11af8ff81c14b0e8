// The grammar of the command line: one table of commands, each with its options and its checks.
//
// Help, parsing and completion all read this table; there is no second list. Only grammar*.cpp,
// parse.cpp and complete.cpp know CLI11 (slow to compile, throws).
#pragma once

#include <CLI/App.hpp>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/options.h"

namespace atl::cli {

// Option values as typed; turned into a Command after parsing.
struct Raw {
  GlobalOptions global;
  std::string output = "text";
  std::vector<std::string> env;
  std::vector<std::string> labels;
  std::string timeout;
  std::string ttl;
  std::string hard_ttl;
  std::string idle_ttl;
  SandboxOptions sandbox;
  ProcessOptions process;
  bool remove = false;
  bool all = false;
  bool force = false;
  bool follow = false;
  std::uint32_t count = 0;
  std::string id;
  std::vector<std::string> ids;
  std::string what;  // a second word of the command: template ls, files grep, cert dev
  CopyOptions copy;
  CertDevOptions cert;
  TemplateOptions templates;
  ShellOptions shell;
  ReplOptions repl;
  LogsOptions logs;
  SshOptions ssh;
  FilesOptions files;
  WatchOptions watch;
  SnapshotOptions snapshot;
  DiffOptions diff;
  ExportOptions exported;
  ImportOptions imported;
  VolumeOptions volume;
  NetworkOptions network;
  CredentialOptions credential;
  NetOptions net;
  WhyOptions why;
  ApprovalsOptions approvals;
  std::string since;
  ServiceOptions service;
  PreviewOptions preview;
  ExposeOptions expose;
  std::vector<std::string> mounts;
  std::string kept;  // --memory of pause and fork
  bool start = false;
  DevOptions dev;
  CompletionOptions completion;
  // What stood after `--`, or what the parser left over.
  std::optional<std::vector<std::string>> tail;
  std::vector<std::string> left_over;
  // The words an option may have, for completion.
  std::map<const CLI::Option*, std::vector<std::string>> choices;
};

struct CommandGrammar {
  std::string_view name;
  void (*add_options)(CLI::App&, Raw&);
  Result<Command> (*finish)(Raw&);
  bool takes_words = false;  // after --
  bool hidden = false;
};

std::span<const CommandGrammar> process_grammar();  // run, exec, shell, repl, logs
std::span<const CommandGrammar> sandbox_grammar();  // create, ls, inspect, rm, …
std::span<const CommandGrammar> state_grammar();    // pause, snapshot, fork, …
std::span<const CommandGrammar> volume_grammar();   // volume
std::span<const CommandGrammar> audit_grammar();    // net, why, approvals
std::span<const CommandGrammar> service_grammar();  // service, preview, expose
std::span<const CommandGrammar> network_grammar();  // network, credential
std::span<const CommandGrammar> file_grammar();     // cp, files, watch
std::span<const CommandGrammar> other_grammar();    // template, cert, doctor, …
const CommandGrammar* find_grammar(std::string_view name);

// Fills `app` with every command.
void describe_commands(CLI::App& app, Raw& raw);

// Shared by the commands.
std::unexpected<Error> usage_error(std::string message);
void add_sandbox_options(CLI::App& app, Raw& raw);
void add_limit_options(CLI::App& app, Raw& raw);  // also of a sandbox that runs
void add_env_option(CLI::App& app, Raw& raw);
void add_identity_options(CLI::App& app, Raw& raw);  // --user, --workdir
CLI::Option* add_choice(CLI::App& app, Raw& raw, std::string name, std::string& value,
                        std::vector<std::string> choices, std::string description);
Result<std::uint32_t> parse_seconds(const std::string& text);
Result<EnvVars> finish_env(const Raw& raw);
Result<SandboxOptions> finish_sandbox(Raw& raw);

}  // namespace atl::cli
