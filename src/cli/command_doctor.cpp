// `atoll doctor`: what this host offers, what the server says, and how to fix each gap.
#include "base/strings.h"
#include "cli/api.h"
#include "cli/api_error.h"
#include "cli/commands.h"
#include "cli/table.h"

namespace atl::cli {
namespace {

using Verdict = DoctorCheck::Verdict;

struct VerdictLook {
  std::string_view name;
  Colour colour;
};

VerdictLook look_of(Verdict verdict) {
  static constexpr VerdictLook kLooks[] = {
      {"ok", Colour::kGreen}, {"degraded", Colour::kYellow}, {"missing", Colour::kRed}};
  return kLooks[static_cast<unsigned>(verdict)];
}

// A server that does not run is no fault of the host, so it is never "missing".
Task<DoctorCheck> check_server(CommandContext& context) {
  if (!context.endpoint.problem.empty()) {
    co_return DoctorCheck{.name = "server",
                          .verdict = Verdict::kDegraded,
                          .finding = context.endpoint.problem,
                          .advice = "give the right key, key file or address: see `atoll --help`"};
  }
  Api api{context.reactor, context.endpoint};
  auto answer =
      co_await api.call("GET", "/api/v1/sandboxes?limit=1", std::nullopt, kDoctorDeadline);
  if (answer) {
    co_return DoctorCheck{.name = "server",
                          .verdict = Verdict::kOk,
                          .finding = concat("answers on ", context.endpoint.url_text),
                          .advice = {}};
  }
  if (answer.error().code == Code::kCancelled) {
    co_return fail(std::move(answer).error());
  }
  auto advice = hint_for(answer.error(), context.endpoint);
  if (answer.error().reason == kReasonTransport) {
    advice = "start it with: atoll serve";
  }
  co_return DoctorCheck{.name = "server",
                        .verdict = Verdict::kDegraded,
                        .finding = answer.error().message,
                        .advice = advice};
}

std::string render_json(const std::vector<DoctorCheck>& checks, Verdict worst) {
  Json list = Json::array();
  for (const auto& check : checks) {
    list.push(Json::object({{"name", check.name},
                            {"verdict", look_of(check.verdict).name},
                            {"finding", check.finding},
                            {"advice", check.advice}}));
  }
  return Json::object({{"verdict", look_of(worst).name}, {"checks", std::move(list)}})
             .dump_pretty() +
         "\n";
}

std::string render_text(const std::vector<DoctorCheck>& checks, Verdict worst,
                        const Console& console) {
  Table table{{"CHECK", "VERDICT", "FINDING"}};
  for (const auto& check : checks) {
    table.add({printable(check.name), std::string{look_of(check.verdict).name},
               printable(check.finding)});
  }
  std::string out = table.render([&](std::size_t row, std::size_t column, std::string_view cell) {
    return console.paint_output(column == 1 ? look_of(checks[row].verdict).colour : Colour::kNone,
                                cell);
  });
  std::string advice;
  for (const auto& check : checks) {
    if (check.verdict != Verdict::kOk && !check.advice.empty()) {
      advice += concat("  ", console.paint_output(look_of(check.verdict).colour, check.name), ": ",
                       printable(check.advice), "\n");
    }
  }
  if (!advice.empty()) {
    out += concat("\nHow to fix:\n", advice);
  }
  static constexpr std::string_view kSummaries[] = {
      "\nEverything is in place.\n", "\nSandboxes can run here, with the limits above.\n",
      "\nSomething essential is missing: sandboxes cannot run here yet.\n"};
  out += kSummaries[static_cast<unsigned>(worst)];
  return out;
}

}  // namespace

Task<int> command_doctor(CommandContext& context, const DoctorOptions&) {
  std::vector<DoctorCheck> checks;
  if (context.environment.host_checks) {
    checks = context.environment.host_checks();
  }
  CO_TRY(auto server, co_await check_server(context));
  checks.push_back(std::move(server));
  Verdict worst = Verdict::kOk;
  for (const auto& check : checks) {
    worst = std::max(worst, check.verdict);
  }
  if (context.options.json) {
    context.console.print(render_json(checks, worst));
  } else if (!context.options.quiet) {
    context.console.print(render_text(checks, worst, context.console));
  }
  co_return worst == Verdict::kMissing ? 1 : 0;
}

}  // namespace atl::cli
