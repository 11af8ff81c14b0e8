#include "cli/grammar.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/help.h"
#include "cli/parse.h"

namespace atl::cli {
namespace {

void add_global_options(CLI::App& app, Raw& raw) {
  add_choice(app, raw, "-o,--output", raw.output, {"text", "json"}, "Output format: text or json")
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

template <class Visit>
void for_each_grammar(const Visit& visit) {
  for (const auto part :
       {process_grammar(), sandbox_grammar(), state_grammar(), volume_grammar(), service_grammar(),
        network_grammar(), file_grammar(), audit_grammar(), other_grammar()}) {
    for (const auto& command : part) {
      visit(command);
    }
  }
}

}  // namespace

std::unexpected<Error> usage_error(std::string message) {
  return fail(Code::kInvalidArgument, std::move(message), kReasonUsage);
}

const CommandGrammar* find_grammar(std::string_view name) {
  const CommandGrammar* found = nullptr;
  for_each_grammar([&](const CommandGrammar& command) {
    if (command.name == name) {
      found = &command;
    }
  });
  return found;
}

void describe_commands(CLI::App& app, Raw& raw) {
  add_global_options(app, raw);
  app.require_subcommand(0, 1);
  for_each_grammar([&](const CommandGrammar& grammar) {
    const auto help = help_of(grammar.name);
    CLI::App* command = app.add_subcommand(std::string{grammar.name}, std::string{help.summary});
    command->footer(std::string{help.examples});
    command->allow_extras(false);
    if (grammar.hidden) {
      command->group("");
    }
    grammar.add_options(*command, raw);
    add_global_options(*command, raw);
  });
  app.allow_extras();
}

CLI::Option* add_choice(CLI::App& app, Raw& raw, std::string name, std::string& value,
                        std::vector<std::string> choices, std::string description) {
  CLI::Option* option = app.add_option(std::move(name), value, std::move(description));
  option->check(CLI::IsMember(choices));
  raw.choices.emplace(option, std::move(choices));
  return option;
}

void add_sandbox_options(CLI::App& app, Raw& raw) {
  auto* from_template =
      app.add_option("-t,--template", raw.sandbox.template_name, "Template to start from [default]")
          ->type_name("TEMPLATE");
  app.add_option("--snapshot", raw.sandbox.snapshot_id, "Begin as this snapshot instead")
      ->type_name("SNAPSHOT")
      ->excludes(from_template);
  app.add_option("-v,--volume", raw.mounts, "Mount a volume, to read only with :ro (repeatable)")
      ->type_name("VOLUME:/path[:ro]")
      ->allow_extra_args(false);
  add_limit_options(app, raw);
}

void add_limit_options(CLI::App& app, Raw& raw) {
  app.add_option("--memory", raw.sandbox.memory, "Memory limit, for example 512Mi or 2Gi")
      ->type_name("SIZE");
  app.add_option("--cpu", raw.sandbox.cpu, "CPU limit in cores, for example 2 or 0.5")
      ->type_name("CORES");
  app.add_option("--ttl", raw.ttl, "Pause the sandbox after this time; using it wakes it up")
      ->type_name("SECS");
  app.add_option("--hard-ttl", raw.hard_ttl, "Delete the sandbox after this time")
      ->type_name("SECS");
  app.add_option("--idle-ttl", raw.idle_ttl, "Pause the sandbox after this time without a request")
      ->type_name("SECS");
}

void add_env_option(CLI::App& app, Raw& raw) {
  app.add_option("-e,--env", raw.env, "Set a variable; without a value take ours (repeatable)")
      ->type_name("K[=V]")
      ->allow_extra_args(false);
}

void add_identity_options(CLI::App& app, Raw& raw) {
  app.add_option("-u,--user", raw.process.user, "User to run as [user]")->type_name("USER");
  app.add_option("-w,--workdir", raw.process.cwd, "Directory to run in [/workspace]")
      ->type_name("PATH");
}

Result<std::uint32_t> parse_seconds(const std::string& text) {
  TRY(const auto milliseconds, parse_duration_ms(text));
  return static_cast<std::uint32_t>((milliseconds + 999) / 1000);
}

Result<EnvVars> finish_env(const Raw& raw) {
  EnvVars env;
  for (const auto& text : raw.env) {
    TRY(auto variable, parse_env(text));
    env.push_back(std::move(variable));
  }
  return env;
}

// "ID:/path" or "ID:/path:ro"
Result<VolumeMount> parse_mount(const std::string& text) {
  const auto colon = text.find(':');
  VolumeMount mount{.volume_id = text.substr(0, colon), .path = {}, .read_only = false};
  if (colon != std::string::npos) {
    mount.path = text.substr(colon + 1);
  }
  if (mount.path.ends_with(":ro")) {
    mount.read_only = true;
    mount.path.resize(mount.path.size() - 3);
  }
  if (mount.volume_id.empty() || !mount.path.starts_with('/')) {
    return usage_error(
        concat("--volume wants VOLUME:/path or VOLUME:/path:ro, not \"", text, "\""));
  }
  return mount;
}

Result<SandboxOptions> finish_sandbox(Raw& raw) {
  for (const auto& text : raw.mounts) {
    TRY(auto mount, parse_mount(text));
    raw.sandbox.mounts.push_back(std::move(mount));
  }
  if (!raw.ttl.empty()) {
    TRY(raw.sandbox.ttl_seconds, parse_seconds(raw.ttl));
  }
  if (!raw.hard_ttl.empty()) {
    TRY(raw.sandbox.hard_ttl_seconds, parse_seconds(raw.hard_ttl));
  }
  if (!raw.idle_ttl.empty()) {
    TRY(raw.sandbox.idle_ttl_seconds, parse_seconds(raw.idle_ttl));
  }
  const auto& memory = raw.sandbox.memory;
  if (!memory.empty() && parse_quantity(memory).value_or(0) == 0) {
    return usage_error(concat("--memory ", memory, ": write a size such as 512Mi or 2Gi"));
  }
  const auto& cpu = raw.sandbox.cpu;
  if (cpu.find_first_not_of("0123456789.m") != std::string::npos) {
    return usage_error(concat("--cpu ", cpu, ": write a number of cores such as 2 or 0.5"));
  }
  return raw.sandbox;
}

}  // namespace atl::cli
