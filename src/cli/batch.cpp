#include "cli/batch.h"

#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/progress.h"

namespace atl::cli {
namespace {

struct Outcome {
  Json done = Json::array();
  Json failed = Json::array();
  std::size_t count = 0;
  int status = 0;
};

Task<> act_on_each(CommandContext& context, const std::vector<std::string>& words,
                   const Batch& batch, Outcome& outcome) {
  for (const auto& word : words) {
    auto answer = co_await batch.act(word);
    ++outcome.count;
    if (answer) {
      outcome.done.push(*std::move(answer));
      if (!context.options.json) {
        context.console.print(printable(word) + "\n");
      }
      continue;
    }
    const auto& error = answer.error();
    if (error.code == Code::kCancelled || error.reason == kReasonTransport) {
      co_return fail(error);  // no point in trying the others
    }
    outcome.status = code_exit_status(error.code);
    outcome.failed.push(
        Json::object({{"id", word}, {"code", code_name(error.code)}, {"message", error.message}}));
    context.console.report(concat(word, ": ", error.message), hint_for(error, context.endpoint));
  }
  co_return ok();
}

}  // namespace

Task<int> run_batch(CommandContext& context, const std::vector<std::string>& words,
                    const Batch& batch) {
  Outcome outcome;
  CO_TRY_DO(co_await with_progress(
      context.console, context.options.quiet,
      [&] { return concat(batch.doing, ": ", outcome.count, " of ", words.size()); },
      act_on_each(context, words, batch, outcome)));
  if (context.options.json) {
    context.console.print(Json::object({{std::string{batch.done}, std::move(outcome.done)},
                                        {"failed", std::move(outcome.failed)}})
                              .dump_pretty() +
                          "\n");
  }
  co_return outcome.status;
}

}  // namespace atl::cli
