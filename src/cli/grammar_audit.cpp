// net, why, approvals: what sandboxes send out, and who lets them.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>

#include "base/strings.h"
#include "cli/grammar.h"

namespace atl::cli {
namespace {

void add_net(CLI::App& app, Raw& raw) {
  auto& options = raw.net;
  add_choice(app, raw, "ACTION", raw.what, {"watch", "flows", "learn", "test"},
             "watch, flows, learn or test")
      ->required();
  app.add_option("SANDBOX", options.subject,
                 "The sandbox; watch: all without one; test: the file of the policy");
  app.add_option("--against", options.against,
                 "test: flows of a sandbox, or a file that `net flows -o json` wrote")
      ->type_name("LOG");
  app.add_option("--since", raw.since, "Only what began so long ago at most, such as 30m")
      ->type_name("SECS");
  app.add_option("-n,--limit", options.limit, "flows: at most so many [100]")->type_name("N");
  add_choice(app, raw, "--outcome", options.outcome, {"open", "allowed", "denied", "failed"},
             "watch, flows: only with this outcome")
      ->type_name("OUTCOME");
  add_choice(app, raw, "--kind", options.kind, {"flow", "dns", "ingress", "peer"},
             "watch, flows: only of this kind")
      ->type_name("KIND");
  app.add_option("--name", options.name, "watch, flows: only to this host, or below *.HOST")
      ->type_name("HOST");
  app.add_option("--rule", options.rule, "watch, flows: only those that this rule decided")
      ->type_name("RULE");
  app.add_option("--protocol", options.protocol, "watch, flows: only of this protocol")
      ->type_name("PROTOCOL");
  app.add_flag("--wildcards", options.wildcards,
               "learn: names of one domain become one pattern, when there are several");
  app.add_flag("--denied", options.denied, "learn: also what was refused");
}

Result<Command> finish_net(Raw& raw) {
  using Action = NetOptions::Action;
  auto& options = raw.net;
  options.action = raw.what == "flows"   ? Action::kFlows
                   : raw.what == "learn" ? Action::kLearn
                   : raw.what == "test"  ? Action::kTest
                                         : Action::kWatch;
  if (options.action == Action::kTest && (options.subject.empty() || options.against.empty())) {
    return usage_error("write: atoll net test POLICY --against SANDBOX|FILE");
  }
  if ((options.action == Action::kFlows || options.action == Action::kLearn) &&
      options.subject.empty()) {
    return usage_error(concat("write: atoll net ", raw.what, " SANDBOX"));
  }
  if (!raw.since.empty()) {
    TRY(options.since_seconds, parse_seconds(raw.since));
  }
  return options;
}

void add_why(CLI::App& app, Raw& raw) {
  app.add_option("SANDBOX", raw.why.words, "A flow; or the sandbox and the host")->required();
  app.add_option("--protocol", raw.why.protocol, "The application protocol, such as tls")
      ->type_name("PROTOCOL");
  app.add_flag("--udp", raw.why.udp, "Datagrams and no connection");
}

Result<Command> finish_why(Raw& raw) {
  if (raw.why.words.empty() || raw.why.words.size() > 2) {
    return usage_error("write: atoll why FLOW, or atoll why SANDBOX HOST[:PORT]");
  }
  return raw.why;
}

void add_approvals(CLI::App& app, Raw& raw) {
  auto& options = raw.approvals;
  add_choice(app, raw, "ACTION", raw.what, {"ls", "watch", "allow", "deny"},
             "ls, watch, allow or deny")
      ->required();
  app.add_option("ID", options.ids, "allow, deny: which");
  app.add_option("--sandbox", options.sandbox, "ls, watch: only of this sandbox")
      ->type_name("SANDBOX");
  add_choice(app, raw, "--state", options.state,
             {"pending", "allowed", "denied", "timed_out", "withdrawn", "all"},
             "ls: those that ended so [pending]")
      ->type_name("STATE");
  app.add_flag("--session", options.session,
               "allow, deny: answer the same question likewise from now on");
}

Result<Command> finish_approvals(Raw& raw) {
  using Action = ApprovalsOptions::Action;
  auto& options = raw.approvals;
  options.action = raw.what == "watch"   ? Action::kWatch
                   : raw.what == "allow" ? Action::kAllow
                   : raw.what == "deny"  ? Action::kDeny
                                         : Action::kList;
  const bool answers = options.action == Action::kAllow || options.action == Action::kDeny;
  if (answers == options.ids.empty()) {
    return usage_error(answers ? concat("write: atoll approvals ", raw.what, " ID")
                               : concat("atoll approvals ", raw.what, " takes no ID"));
  }
  return options;
}

constexpr std::array<CommandGrammar, 3> kAuditGrammar{{
    {.name = "net", .add_options = add_net, .finish = finish_net},
    {.name = "why", .add_options = add_why, .finish = finish_why},
    {.name = "approvals", .add_options = add_approvals, .finish = finish_approvals},
}};

}  // namespace

std::span<const CommandGrammar> audit_grammar() {
  return kAuditGrammar;
}

}  // namespace atl::cli
