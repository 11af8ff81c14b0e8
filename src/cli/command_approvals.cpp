// `atoll approvals`: requests that wait for a person.
#include "base/clock.h"
#include "base/strings.h"
#include "cli/api.h"
#include "cli/batch.h"
#include "cli/commands.h"
#include "cli/descriptor_gate.h"
#include "cli/line_stream.h"
#include "cli/sandbox.h"
#include "cli/table.h"

namespace atl::cli {
namespace {

Task<std::string> list_path(Api& api, const ApprovalsOptions& options) {
  std::string path =
      concat("/api/v1/approvals?state=", options.state.empty() ? "pending" : options.state);
  if (!options.sandbox.empty()) {
    CO_TRY(const auto id, co_await resolve_sandbox(api, options.sandbox));
    path += concat("&sandbox_id=", http::percent_encode(id));
  }
  co_return std::move(path);
}

Task<int> list(CommandContext& context, const ApprovalsOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(auto path, co_await list_path(api, options));
  CO_TRY(const Json answer, co_await api.call("GET", std::move(path)));
  const Json* approvals = answer.find("approvals");
  if (context.options.json || approvals == nullptr || approvals->as_array() == nullptr) {
    context.console.print(answer.dump_pretty() + "\n");
    co_return 0;
  }
  const UnixMillis now = SystemWallClock{}.now();
  Table table{{"APPROVAL", "SANDBOX", "STATE", "AGE", "BY", "RULE", "WHAT"}};
  std::string ids;
  for (const Json& approval : *approvals->as_array()) {
    const auto asked = parse_rfc3339(text_member(approval, "asked_at"));
    const auto by = text_member(approval, "answered_by");
    ids += printable(text_member(approval, "id")) + "\n";
    table.add({printable(text_member(approval, "id")),
               printable(text_member(approval, "sandbox_id")),
               printable(text_member(approval, "state")),
               asked ? format_age((now - *asked) / 1000) : "-", by.empty() ? "-" : printable(by),
               printable(text_member(approval, "rule")), printable(text_member(approval, "what"))});
  }
  context.console.print(context.options.quiet ? ids : table.render());
  co_return 0;
}

Task<int> watch(CommandContext& context, const ApprovalsOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(auto path, co_await list_path(api, options));
  CO_TRY(auto output, SharedWriter::open(context.reactor, context.console.output()));
  CO_TRY(auto response, co_await api.open(path + "&follow=true"));
  LineStream lines{std::move(response)};
  if (!context.options.quiet && !context.options.json) {
    context.console.complain("watching for questions; Ctrl-C ends\n");
  }
  for (;;) {
    CO_TRY(const Json approval, co_await lines.next());
    const std::string state = text_member(approval, "state");
    const Colour colour = state == "pending"   ? Colour::kBold
                          : state == "allowed" ? Colour::kGreen
                                               : Colour::kRed;
    const std::string line = context.options.json
                                 ? approval.dump() + "\n"
                                 : concat(context.console.paint_output(colour, printable(state)),
                                          "  ", printable(text_member(approval, "id")), "  ",
                                          printable(text_member(approval, "sandbox_id")), "  ",
                                          printable(text_member(approval, "what")), "  (",
                                          printable(text_member(approval, "rule")), ")\n");
    CO_TRY_DO(co_await output->write(line));
  }
}

Task<Json> answer_one(Api& api, std::string id, std::string_view decision, bool session) {
  Json body = Json::object({{"decision", decision}, {"remember", session ? "session" : "once"}});
  const std::string path = concat("/api/v1/approvals/", http::percent_encode(id));
  CO_TRY_DO(co_await api.call("POST", path, std::move(body)));
  co_return id;
}

Task<int> answer(CommandContext& context, const ApprovalsOptions& options) {
  Api api{context.reactor, context.endpoint};
  const bool allow = options.action == ApprovalsOptions::Action::kAllow;
  const Batch batch{
      .doing = "answering", .done = allow ? "allowed" : "denied", .act = [&](std::string id) {
        return answer_one(api, std::move(id), allow ? "allow" : "deny", options.session);
      }};
  co_return co_await run_batch(context, options.ids, batch);
}

}  // namespace

Task<int> command_approvals(CommandContext& context, const ApprovalsOptions& options) {
  switch (options.action) {
    case ApprovalsOptions::Action::kList:
      return list(context, options);
    case ApprovalsOptions::Action::kWatch:
      return watch(context, options);
    case ApprovalsOptions::Action::kAllow:
    case ApprovalsOptions::Action::kDeny:
      break;
  }
  return answer(context, options);
}

}  // namespace atl::cli
