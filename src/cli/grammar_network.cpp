// network, credential: what leaves a sandbox, and with which secrets.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>

#include "base/strings.h"
#include "cli/grammar.h"

namespace atl::cli {
namespace {

using Action = CredentialOptions::Action;

void add_network(CLI::App& app, Raw& raw) {
  add_choice(app, raw, "ACTION", raw.what, {"get", "set"}, "get or set")->required();
  app.add_option("SANDBOX", raw.network.id, "The sandbox")->required();
  app.add_option("FILE", raw.network.file, "set: the policy as JSON; - is standard input [-]");
}

Result<Command> finish_network(Raw& raw) {
  raw.network.set = raw.what == "set";
  if (!raw.network.set && !raw.network.file.empty()) {
    return usage_error("write: atoll network get SANDBOX");
  }
  return raw.network;
}

void add_credential(CLI::App& app, Raw& raw) {
  add_choice(app, raw, "ACTION", raw.what, {"create", "ls", "rotate", "rm"},
             "create, ls, rotate or rm")
      ->required();
  app.add_option("NAME", raw.credential.names,
                 "The credential; create, rotate: and the file it is in [standard input]");
  app.add_option("--key", raw.credential.key,
                 "create, rotate: what is read is the value of this key, as it is")
      ->type_name("KEY");
}

Result<Command> finish_credential(Raw& raw) {
  auto& options = raw.credential;
  const std::size_t words = options.names.size();
  if (raw.what == "ls") {
    options.action = Action::kList;
    return words == 0 ? Result<Command>{options}
                      : Result<Command>{usage_error("write: atoll credential ls")};
  }
  if (raw.what == "rm") {
    options.action = Action::kRemove;
    return words > 0 ? Result<Command>{options}
                     : Result<Command>{usage_error("write: atoll credential rm NAME...")};
  }
  options.action = raw.what == "create" ? Action::kCreate : Action::kRotate;
  if (words < 1 || words > 2) {
    return usage_error(concat("write: atoll credential ", raw.what, " NAME [FILE|-]"));
  }
  return options;
}

constexpr std::array<CommandGrammar, 2> kNetworkGrammar{{
    {.name = "network", .add_options = add_network, .finish = finish_network},
    {.name = "credential", .add_options = add_credential, .finish = finish_credential},
}};

}  // namespace

std::span<const CommandGrammar> network_grammar() {
  return kNetworkGrammar;
}

}  // namespace atl::cli
