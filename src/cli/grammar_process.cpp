// run, exec, shell, repl, logs, ssh: what runs in a sandbox.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>

#include "base/strings.h"
#include "cli/grammar.h"
#include "cli/parse.h"

namespace atl::cli {
namespace {

void add_process_options(CLI::App& app, Raw& raw) {
  add_identity_options(app, raw);
  app.add_flag("-i,--interactive", raw.process.interactive,
               "Forward standard input also from a terminal");
  app.add_option("--timeout", raw.timeout, "Kill the command after this time")->type_name("SECS");
  // The first word that is not ours begins the command; what follows is not looked at.
  app.prefix_command();
}

// The command of run and exec.
Result<std::vector<std::string>> command_words(Raw& raw, std::string_view name) {
  auto words = std::move(raw.left_over);
  if (!words.empty() && words.front().starts_with("-")) {
    return usage_error(concat("unknown option ", words.front(), " of `atoll ", name,
                              "`; the command's own options come after --"));
  }
  if (raw.tail) {
    if (!words.empty()) {  // `run grep -- x`: the command began before, its -- is its own
      words.emplace_back("--");
    }
    words.insert(words.end(), raw.tail->begin(), raw.tail->end());
  }
  if (words.empty()) {
    return usage_error(concat("no command given; for example: atoll ", name,
                              name == "exec" ? " SANDBOX" : "", " -- ls -l"));
  }
  return words;
}

Result<ProcessOptions> finish_process(Raw& raw) {
  TRY(raw.process.env, finish_env(raw));
  if (!raw.timeout.empty()) {
    TRY(raw.process.timeout_ms, parse_duration_ms(raw.timeout));
  }
  return raw.process;
}

void add_run(CLI::App& app, Raw& raw) {
  add_sandbox_options(app, raw);
  add_env_option(app, raw);
  add_process_options(app, raw);
  app.add_flag("--rm", raw.remove, "Delete the sandbox afterwards, whatever happens");
}

Result<Command> finish_run(Raw& raw) {
  TRY(auto sandbox, finish_sandbox(raw));
  TRY_DO(finish_process(raw));
  TRY(raw.process.argv, command_words(raw, "run"));
  return RunOptions{.sandbox = std::move(sandbox), .process = raw.process, .remove = raw.remove};
}

void add_exec(CLI::App& app, Raw& raw) {
  add_env_option(app, raw);
  add_process_options(app, raw);
  app.add_option("SANDBOX", raw.id, "The sandbox");
}

Result<Command> finish_exec(Raw& raw) {
  if (raw.id.empty()) {
    return usage_error("which sandbox? For example: atoll exec SANDBOX -- ls -l");
  }
  TRY_DO(finish_process(raw));
  TRY(raw.process.argv, command_words(raw, "exec"));
  return ExecOptions{.id = raw.id, .process = raw.process};
}

void add_shell(CLI::App& app, Raw& raw) {
  add_sandbox_options(app, raw);
  add_env_option(app, raw);
  add_identity_options(app, raw);
  app.add_flag("--keep", raw.shell.keep, "Keep a sandbox that was made for this shell");
  app.add_option("--attach", raw.shell.attach, "Go on with a terminal that was left with ~.")
      ->type_name("CONTEXT");
  app.add_flag("--no-escape", raw.shell.no_escape, "~ at the start of a line is only a letter");
  app.add_option("SANDBOX", raw.id, "The sandbox; without one a temporary one is made");
}

Result<Command> finish_shell(Raw& raw) {
  auto& shell = raw.shell;
  shell.id = raw.id;
  if (!shell.attach.empty() && shell.id.empty()) {
    return usage_error("--attach wants the sandbox too: atoll shell SANDBOX --attach CONTEXT");
  }
  TRY(shell.sandbox, finish_sandbox(raw));
  TRY(shell.process, finish_process(raw));
  if (raw.tail) {
    shell.process.argv = *std::move(raw.tail);
  }
  return shell;
}

void add_repl(CLI::App& app, Raw& raw) {
  add_sandbox_options(app, raw);
  add_env_option(app, raw);
  add_identity_options(app, raw);
  app.add_option("-l,--language", raw.repl.language,
                 "python (default), javascript, typescript, bash, or another the server knows")
      ->type_name("NAME");
  app.add_flag("--keep", raw.repl.keep, "Keep a sandbox that was made for this");
  app.add_option("--save-images", raw.repl.image_directory, "Write images into this directory")
      ->type_name("DIR");
  app.add_option("--timeout", raw.timeout, "End code that is piped in after this time")
      ->type_name("SECS");
  app.add_option("SANDBOX", raw.id, "The sandbox; without one a temporary one is made");
}

Result<Command> finish_repl(Raw& raw) {
  raw.repl.id = raw.id;
  TRY(raw.repl.sandbox, finish_sandbox(raw));
  TRY(raw.repl.process, finish_process(raw));
  return raw.repl;
}

void add_logs(CLI::App& app, Raw& raw) {
  app.add_flag("-f,--follow", raw.logs.follow, "Go on with what comes");
  app.add_option("SANDBOX", raw.logs.id, "The sandbox")->required();
  app.add_option("CONTEXT", raw.logs.context, "One of its contexts; without one all of them");
}

Result<Command> finish_logs(Raw& raw) {
  return raw.logs;
}

void add_ssh(CLI::App& app, Raw& raw) {
  app.add_option("--add-key", raw.ssh.add_key, "First register this public key (a .pub file)")
      ->type_name("FILE");
  app.add_option("SANDBOX", raw.ssh.id, "The sandbox");
}

Result<Command> finish_ssh(Raw& raw) {
  if (raw.ssh.id.empty() && raw.ssh.add_key.empty()) {
    return usage_error("which sandbox? For example: atoll ssh SANDBOX");
  }
  if (raw.tail) {
    raw.ssh.words = *std::move(raw.tail);
  }
  return raw.ssh;
}

constexpr std::array<CommandGrammar, 6> kProcessGrammar{{
    {.name = "run", .add_options = add_run, .finish = finish_run, .takes_words = true},
    {.name = "exec", .add_options = add_exec, .finish = finish_exec, .takes_words = true},
    {.name = "shell", .add_options = add_shell, .finish = finish_shell, .takes_words = true},
    {.name = "repl", .add_options = add_repl, .finish = finish_repl},
    {.name = "logs", .add_options = add_logs, .finish = finish_logs},
    {.name = "ssh", .add_options = add_ssh, .finish = finish_ssh, .takes_words = true},
}};

}  // namespace

std::span<const CommandGrammar> process_grammar() {
  return kProcessGrammar;
}

}  // namespace atl::cli
