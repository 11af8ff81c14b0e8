// service, preview, expose: what the outside may reach of a sandbox.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>

#include "base/strings.h"
#include "cli/grammar.h"

namespace atl::cli {
namespace {

void add_service(CLI::App& app, Raw& raw) {
  add_choice(app, raw, "ACTION", raw.what, {"ls", "set", "url"}, "ls, set or url")->required();
  app.add_option("SANDBOX", raw.service.words, "The sandbox; set: and a file; url: and a service");
}

Result<Command> finish_service(Raw& raw) {
  using Action = ServiceOptions::Action;
  auto& options = raw.service;
  options.action = raw.what == "set"   ? Action::kSet
                   : raw.what == "url" ? Action::kUrl
                                       : Action::kList;
  const std::size_t words = options.action == Action::kList ? 1 : 2;
  if (options.words.size() != words) {
    return usage_error(options.action == Action::kSet   ? "write: atoll service set SANDBOX FILE"
                       : options.action == Action::kUrl ? "write: atoll service url SANDBOX SERVICE"
                                                        : "write: atoll service ls SANDBOX");
  }
  return options;
}

void add_preview(CLI::App& app, Raw& raw) {
  add_choice(app, raw, "ACTION", raw.what, {"create", "rm"}, "create or rm")->required();
  app.add_option("SANDBOX", raw.preview.words, "The sandbox, and the port; rm: and the preview");
  app.add_option("--path", raw.preview.path, "create: where the link leads [/]")->type_name("PATH");
  app.add_flag("--https", raw.preview.https, "create: the port speaks TLS itself");
  app.add_option("--ttl", raw.ttl, "create: how long it is good for [900]")->type_name("SECS");
}

Result<Command> finish_preview(Raw& raw) {
  using Action = PreviewOptions::Action;
  auto& options = raw.preview;
  options.action = raw.what == "rm" ? Action::kRemove : Action::kCreate;
  if (options.words.size() != 2) {
    return usage_error(options.action == Action::kRemove
                           ? "write: atoll preview rm SANDBOX PREVIEW"
                           : "write: atoll preview create SANDBOX PORT");
  }
  if (options.action == Action::kCreate && !parse_u64(options.words[1])) {
    return usage_error("the port is a number");
  }
  if (!raw.ttl.empty()) {
    TRY(options.ttl_seconds, parse_seconds(raw.ttl));
  }
  return options;
}

void add_expose(CLI::App& app, Raw& raw) {
  app.add_option("SANDBOX", raw.expose.sandbox, "The sandbox")->required();
  app.add_option("PORT", raw.expose.port, "The port")->required();
  app.add_option("-n,--name", raw.expose.name, "Name of the service [port-PORT]")
      ->type_name("NAME");
  app.add_option("--token", raw.expose.token, "Callers must send it as a bearer token")
      ->type_name("TEXT");
  app.add_flag("--no-resume", raw.expose.no_resume, "A request does not wake a paused sandbox");
}

Result<Command> finish_expose(Raw& raw) {
  if (raw.expose.port == 0) {
    return usage_error("the port is a number from 1 to 65535");
  }
  return raw.expose;
}

constexpr std::array<CommandGrammar, 3> kServiceGrammar{{
    {.name = "service", .add_options = add_service, .finish = finish_service},
    {.name = "preview", .add_options = add_preview, .finish = finish_preview},
    {.name = "expose", .add_options = add_expose, .finish = finish_expose},
}};

}  // namespace

std::span<const CommandGrammar> service_grammar() {
  return kServiceGrammar;
}

}  // namespace atl::cli
