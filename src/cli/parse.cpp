// The only file that knows CLI11. It throws; the throws end here.
#include "cli/parse.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/help.h"
#include "cli/limits.h"
#include "cli/suggest.h"

namespace atl::cli {
namespace {

std::unexpected<Error> usage(std::string message) {
  return fail(Code::kInvalidArgument, std::move(message), kReasonUsage);
}

// Option values as typed; turned into options after parsing.
struct Raw {
  GlobalOptions global;
  std::string output = "text";
  std::vector<std::string> env;
  std::string timeout;
  std::string ttl;
  std::string hard_ttl;
  SandboxOptions sandbox;
  ProcessOptions process;
  bool remove = false;
  bool all = false;
  bool force = false;
  std::string id;
  std::vector<std::string> ids;
  CopyOptions copy;
  CertDevOptions cert;
  TemplateOptions templates;
  std::string what;
};

void add_global_options(CLI::App& app, Raw& raw) {
  app.add_option("-o,--output", raw.output, "Output format: text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("FORMAT");
  app.add_flag("-q,--quiet", raw.global.quiet, "Only what was asked for: ids, no progress");
  app.add_option("--api-url", raw.global.api_url, "Address of the server")->type_name("URL");
  app.add_option("--api-key", raw.global.api_key,
                 "API key (others can see it; prefer the "
                 "environment or a file)")
      ->type_name("KEY");
  app.add_option("--data-dir", raw.global.data_dir, "Data directory whose admin.key to use")
      ->type_name("DIR");
  app.add_option("--ca-file", raw.global.ca_file, "Certificates to trust on https (PEM)")
      ->type_name("FILE");
}

void add_sandbox_options(CLI::App& app, Raw& raw) {
  app.add_option("-t,--template", raw.sandbox.template_name, "Template to start from [default]")
      ->type_name("NAME");
  app.add_option("--memory", raw.sandbox.memory, "Memory limit, for example 512Mi or 2Gi")
      ->type_name("SIZE");
  app.add_option("--cpu", raw.sandbox.cpu, "CPU limit in cores, for example 2 or 0.5")
      ->type_name("CORES");
  app.add_option("--ttl", raw.ttl,
                 "Delete the sandbox after this time (will pause it once pausing exists)")
      ->type_name("SECS");
  app.add_option("--hard-ttl", raw.hard_ttl, "Delete the sandbox after this time")
      ->type_name("SECS");
}

void add_env_option(CLI::App& app, Raw& raw) {
  app.add_option("-e,--env", raw.env, "Set a variable; without a value take ours (repeatable)")
      ->type_name("K[=V]")
      ->allow_extra_args(false);
}

void add_process_options(CLI::App& app, Raw& raw) {
  app.add_option("-u,--user", raw.process.user, "User to run as [user]")->type_name("USER");
  app.add_option("-w,--workdir", raw.process.cwd, "Directory to run in [/workspace]")
      ->type_name("DIR");
  app.add_flag("-i,--interactive", raw.process.interactive,
               "Forward standard input also from a terminal");
  app.add_option("--timeout", raw.timeout, "Kill the command after this time")->type_name("SECS");
  // The first word that is not ours begins the command; what follows is not looked at.
  app.prefix_command();
}

CLI::App* add_command(CLI::App& app, Raw& raw, std::string_view name) {
  const auto help = help_of(name);
  CLI::App* command = app.add_subcommand(std::string{name}, std::string{help.summary});
  command->footer(std::string{help.examples});
  command->allow_extras(false);
  add_global_options(*command, raw);
  return command;
}

void add_template_command(CLI::App& app, Raw& raw) {
  auto* command = add_command(app, raw, "template");
  TemplateOptions& options = raw.templates;
  command->add_option("ACTION", raw.what, "ls, add, pull, build or rm")
      ->required()
      ->check(CLI::IsMember({"ls", "add", "pull", "build", "rm"}));
  command->add_option("ARG", options.names, "add: NAME IMAGE; pull, rm: NAME; build: DIR");
  command->add_option("--archive", options.archive, "add: an image archive instead of an image")
      ->type_name("FILE");
  command->add_option("-f,--file", options.file, "build: the Dockerfile [DIR/Dockerfile]")
      ->type_name("FILE");
  command->add_option("-n,--name", options.name, "build: name of the template [the directory's]")
      ->type_name("NAME");
  command->add_option("--build-arg", options.build_arguments, "build: value of an ARG (repeatable)")
      ->type_name("K=V")
      ->allow_extra_args(false);
  command->add_option("--target", options.target, "build: stop at this stage")->type_name("STAGE");
  command
      ->add_option("--build-network", options.network, "build: network of RUN, none or host [none]")
      ->type_name("NET");
  command->add_flag("--no-cache", options.no_cache, "build: run every step again");
  command->add_option("--memory", options.memory, "add: memory of its sandboxes [2Gi]")
      ->type_name("SIZE");
  command->add_option("--username", options.username, "Account at the registry")->type_name("NAME");
  command->add_flag("--insecure-registry", options.insecure_registry,
                    "Allow plain HTTP and unknown certificates");
}

void describe(CLI::App& app, Raw& raw) {
  add_global_options(app, raw);
  app.require_subcommand(0, 1);
  auto* run = add_command(app, raw, "run");
  add_sandbox_options(*run, raw);
  add_env_option(*run, raw);
  add_process_options(*run, raw);
  run->add_flag("--rm", raw.remove, "Delete the sandbox afterwards, whatever happens");
  auto* create = add_command(app, raw, "create");
  add_sandbox_options(*create, raw);
  add_env_option(*create, raw);
  auto* exec = add_command(app, raw, "exec");
  add_env_option(*exec, raw);
  add_process_options(*exec, raw);
  exec->add_option("ID", raw.id, "The sandbox");
  auto* list = add_command(app, raw, "ls");
  list->add_flag("-a,--all", raw.all, "Also sandboxes that failed or are being deleted");
  auto* inspect = add_command(app, raw, "inspect");
  inspect->add_option("ID", raw.id, "The sandbox")->required();
  auto* remove = add_command(app, raw, "rm");
  remove->add_option("ID", raw.ids, "The sandboxes");
  remove->add_flag("--all", raw.all, "Every sandbox this key can see");
  remove->add_flag("-f,--force", raw.force, "An id that does not exist is fine");
  auto* copy = add_command(app, raw, "cp");
  copy->add_option("SOURCE", raw.copy.source, "FILE, DIR, ID:/path or - (standard input)")
      ->required();
  copy->add_option("DESTINATION", raw.copy.destination,
                   "FILE, DIR, ID:/path or - (standard output)")
      ->required();
  copy->add_option("-u,--user", raw.copy.user, "Act as this user in the sandbox [user]")
      ->type_name("USER");
  auto* cert = add_command(app, raw, "cert");
  cert->add_option("WHAT", raw.what, "dev: a local authority and a certificate it signed")
      ->required()
      ->check(CLI::IsMember({"dev"}));
  cert->add_option("--dir", raw.cert.directory, "Where to put the files [atoll-cert]")
      ->type_name("DIR");
  cert->add_option("--name", raw.cert.names,
                   "Names and addresses [localhost,*.localhost,127.0.0.1]")
      ->type_name("LIST");
  add_template_command(app, raw);
  add_command(app, raw, "doctor");
  add_command(app, raw, "version");
}

Result<std::uint32_t> parse_seconds(const std::string& text) {
  TRY(const auto milliseconds, parse_duration_ms(text));
  return static_cast<std::uint32_t>((milliseconds + 999) / 1000);
}

Result<> finish_sandbox(Raw& raw) {
  if (!raw.ttl.empty()) {
    TRY(raw.sandbox.ttl_seconds, parse_seconds(raw.ttl));
  }
  if (!raw.hard_ttl.empty()) {
    TRY(raw.sandbox.hard_ttl_seconds, parse_seconds(raw.hard_ttl));
  }
  const auto& memory = raw.sandbox.memory;
  if (!memory.empty() && parse_quantity(memory).value_or(0) == 0) {
    return usage(concat("--memory ", memory, ": write a size such as 512Mi or 2Gi"));
  }
  const auto& cpu = raw.sandbox.cpu;
  if (cpu.find_first_not_of("0123456789.m") != std::string::npos) {
    return usage(concat("--cpu ", cpu, ": write a number of cores such as 2 or 0.5"));
  }
  return {};
}

// The command of run and exec: what stood after `--`, or what the parser left over.
Result<std::vector<std::string>> command_words(const CLI::App& app,
                                               std::optional<std::vector<std::string>> tail) {
  auto left_over = app.remaining();
  if (!left_over.empty() && left_over.front().starts_with("-")) {
    return usage(concat("unknown option ", left_over.front(), " of `atoll ", app.get_name(),
                        "`; the command's own options come after --"));
  }
  if (tail) {
    if (!left_over.empty()) {  // `run grep -- x`: the command began before, its -- is its own
      left_over.emplace_back("--");
    }
    left_over.insert(left_over.end(), tail->begin(), tail->end());
  }
  if (left_over.empty()) {
    return usage(concat("no command given; for example: atoll ", app.get_name(),
                        app.get_name() == "exec" ? " ID" : "", " -- ls -l"));
  }
  return left_over;
}

Result<Command> to_template(Raw& raw) {
  using Action = TemplateOptions::Action;
  TemplateOptions& options = raw.templates;
  const std::size_t count = options.names.size();
  if (raw.what == "ls") {
    options.action = Action::kList;
  } else if (raw.what == "add") {
    options.action = Action::kAdd;
    if (count != (options.archive.empty() ? 2U : 1U)) {
      return usage(
          "write: atoll template add NAME IMAGE, or: atoll template add NAME --archive FILE");
    }
  } else if (raw.what == "build") {
    options.action = Action::kBuild;
    if (count > 1) {
      return usage("write: atoll template build [-n NAME] [-f Dockerfile] DIR");
    }
  } else {
    options.action = raw.what == "pull" ? Action::kPull : Action::kRemove;
    if (count == 0 || (raw.what == "pull" && count > 1)) {
      return usage(concat("which template? For example: atoll template ", raw.what, " NAME"));
    }
  }
  return options;
}

Result<Command> to_command(const CLI::App& app, Raw& raw,
                           std::optional<std::vector<std::string>> tail) {
  const auto name = app.get_name();
  if (tail && name != "run" && name != "exec") {
    return usage(concat("`atoll ", name, "` takes no command after --"));
  }
  EnvVars env;
  for (const auto& text : raw.env) {
    TRY(auto variable, parse_env(text));
    env.push_back(std::move(variable));
  }
  TRY_DO(finish_sandbox(raw));
  if (!raw.timeout.empty()) {
    TRY(raw.process.timeout_ms, parse_duration_ms(raw.timeout));
  }
  if (name == "run" || name == "exec") {
    if (name == "exec" && raw.id.empty()) {
      return usage("which sandbox? For example: atoll exec ID -- ls -l");
    }
    TRY(raw.process.argv, command_words(app, std::move(tail)));
    raw.process.env = std::move(env);
    if (name == "exec") {
      return ExecOptions{.id = raw.id, .process = raw.process};
    }
    return RunOptions{.sandbox = raw.sandbox, .process = raw.process, .remove = raw.remove};
  }
  if (name == "create") {
    raw.sandbox.env = std::move(env);
    return CreateOptions{.sandbox = raw.sandbox};
  }
  if (name == "ls") {
    return ListOptions{.all = raw.all};
  }
  if (name == "inspect") {
    return InspectOptions{.id = raw.id};
  }
  if (name == "rm") {
    if (raw.all != raw.ids.empty()) {
      return usage(raw.all ? "rm wants ids or --all, not both" : "rm wants ids, or --all");
    }
    return RemoveOptions{.ids = raw.ids, .all = raw.all, .force = raw.force};
  }
  if (name == "cp") {
    return raw.copy;
  }
  if (name == "cert") {
    return raw.cert;
  }
  if (name == "template") {
    return to_template(raw);
  }
  if (name == "doctor") {
    return DoctorOptions{};
  }
  return VersionOptions{};
}

std::unexpected<Error> unknown_word(const CLI::App& app, const std::string& word,
                                    const Environment& environment) {
  if (word.starts_with("-")) {
    return usage(concat("unknown option ", word));
  }
  std::vector<std::string> known;
  for (const auto* command : app.get_subcommands({})) {
    known.push_back(command->get_name());
  }
  for (const auto& other : environment.other_commands) {
    known.push_back(other.name);
  }
  const auto near = nearest_word(word, known);
  return usage(concat("there is no command \"", word, "\"",
                      near ? concat("; did you mean `atoll ", *near, "`?") : std::string{}));
}

// CLI11 knows nothing of what stands after --, so the usage line is ours.
HelpText command_help(const CLI::App& command) {
  std::string text = command.help();
  const auto begin = text.find("Usage:");
  const auto end = text.find('\n', begin);
  if (begin != std::string::npos && end != std::string::npos) {
    text.replace(begin, end - begin, concat("Usage: atoll ", help_of(command.get_name()).usage));
  }
  return HelpText{std::move(text)};
}

HelpText program_help(CLI::App& app, const Environment& environment) {
  std::string text = app.help();
  std::string others;
  for (const auto& other : environment.other_commands) {
    const std::size_t width = std::max<std::size_t>(other.name.size() + 2, 28);
    others +=
        concat("  ", other.name, std::string(width - other.name.size(), ' '), other.summary, "\n");
  }
  if (!others.empty()) {
    others.insert(0, "Server:\n");
  }
  return HelpText{concat(text, others, "\n", kProgramExamples, "\n")};
}

// A help flag before the command of run and exec is ours; after it, it is the command's.
Result<Parsed> parse(CLI::App& app, Raw& raw, std::vector<std::string> head,
                     std::optional<std::vector<std::string>> tail, const Environment& environment) {
  std::reverse(head.begin(), head.end());  // as CLI11 wants it
  try {
    app.parse(head);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    return chosen.empty() ? program_help(app, environment) : command_help(*chosen.front());
  } catch (const CLI::ExtrasError&) {
    const auto left_over = app.remaining(true);
    const auto chosen = app.get_subcommands();
    return usage(concat("unexpected \"", left_over.empty() ? "" : left_over.front(),
                        "\" of `atoll ", chosen.empty() ? "" : chosen.front()->get_name(), "`"));
  } catch (const CLI::ParseError& error) {
    return usage(error.what());  // written for people
  }
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    const auto left_over = app.remaining();
    if (left_over.empty()) {
      return program_help(app, environment);
    }
    return unknown_word(app, left_over.front(), environment);
  }
  raw.global.json = raw.output == "json";
  TRY(auto command, to_command(*chosen.front(), raw, std::move(tail)));
  return Invocation{.global = std::move(raw.global), .command = std::move(command)};
}

}  // namespace

Result<Parsed> parse_arguments(const std::vector<std::string>& arguments,
                               const Environment& environment) {
  auto head = arguments;
  if (!head.empty() && head.front() == "help") {  // atoll help cp
    head.erase(head.begin());
    head.push_back("--help");
  } else if (!head.empty() && head.front() == "--version") {
    head.front() = "version";
  }
  std::optional<std::vector<std::string>> tail;
  if (const auto mark = std::find(head.begin(), head.end(), "--"); mark != head.end()) {
    tail.emplace(mark + 1, head.end());
    head.erase(mark, head.end());
  }
  Raw raw;
  CLI::App app{std::string{kProgramSummary}, "atoll"};
  describe(app, raw);
  app.allow_extras();
  return parse(app, raw, std::move(head), std::move(tail), environment);
}

}  // namespace atl::cli
