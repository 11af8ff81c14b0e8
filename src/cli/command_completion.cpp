// `atoll completion SHELL` prints a script; the script asks `atoll complete -- WORDS`.
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/complete.h"
#include "cli/sandbox.h"

namespace atl::cli {
namespace {

constexpr std::size_t kMaxCandidates = 200;

void add_line(std::string& out, std::string_view text, std::string_view description) {
  out += concat(printable(text), "\t", printable(description), "\n");
}

// A server that does not answer only means that there is nothing to offer.
Task<std::string> sandbox_lines(CommandContext& context, std::string prefix, bool as_place) {
  Api api{context.reactor, context.endpoint};
  std::string out;
  if (!context.endpoint.problem.empty()) {
    co_return out;
  }
  auto page = co_await api.call("GET", concat("/api/v1/sandboxes?limit=", kMaxCandidates),
                                std::nullopt, kCompletionDeadline);
  const Json* entries = page ? page->find("sandboxes") : nullptr;
  if (entries == nullptr || entries->as_array() == nullptr) {
    co_return out;
  }
  for (const auto& sandbox : *entries->as_array()) {
    const auto about =
        concat(text_member(sandbox, "template_id"), " ", text_member(sandbox, "status"));
    for (const auto& word : {text_member(sandbox, "id"), text_member(sandbox, "name")}) {
      if (!word.empty() && word.starts_with(prefix)) {
        add_line(out, as_place ? word + ":" : word, about);
      }
    }
  }
  co_return out;
}

Task<std::string> template_lines(CommandContext& context, std::string prefix) {
  Api api{context.reactor, context.endpoint};
  std::string out;
  if (!context.endpoint.problem.empty()) {
    co_return out;
  }
  auto answer = co_await api.call("GET", "/api/v1/templates", std::nullopt, kCompletionDeadline);
  const Json* entries = answer ? answer->find("templates") : nullptr;
  if (entries == nullptr || entries->as_array() == nullptr) {
    co_return out;
  }
  for (const auto& each : *entries->as_array()) {
    const auto name = text_member(each, "template_id");
    if (!name.empty() && name.starts_with(prefix)) {
      add_line(out, name, text_member(each, "description"));
    }
  }
  co_return out;
}

Task<std::string> volume_lines(CommandContext& context, std::string prefix) {
  Api api{context.reactor, context.endpoint};
  std::string out;
  if (!context.endpoint.problem.empty()) {
    co_return out;
  }
  auto volumes =
      co_await api.call("GET", "/api/v1/sandboxvolumes", std::nullopt, kCompletionDeadline);
  if (!volumes || volumes->as_array() == nullptr) {
    co_return out;
  }
  for (const auto& volume : *volumes->as_array()) {
    const auto id = text_member(volume, "id");
    if (!id.empty() && id.starts_with(prefix)) {
      add_line(out, id, text_member(volume, "access_mode"));
    }
  }
  co_return out;
}

}  // namespace

Task<int> command_completion(CommandContext& context, const CompletionOptions& options) {
  context.console.print(completion_script(options.shell));
  co_return 0;
}

Task<int> command_complete(CommandContext& context, const CompleteOptions& options) {
  using Kind = Completion::Kind;
  const auto completion = complete_words(options.words, context.environment);
  std::string out;
  for (const auto& candidate : completion.candidates) {
    add_line(out, candidate.text, candidate.description);
  }
  // What follows SANDBOX: is on the server.
  const bool place = completion.kind == Kind::kSandboxPlace && !completion.prefix.contains(':');
  if (place || completion.kind == Kind::kSandbox) {
    CO_TRY(out, co_await sandbox_lines(context, completion.prefix, place));
  } else if (completion.kind == Kind::kTemplate) {
    CO_TRY(out, co_await template_lines(context, completion.prefix));
  } else if (completion.kind == Kind::kVolume) {
    CO_TRY(out, co_await volume_lines(context, completion.prefix));
  }
  if (place || completion.kind == Kind::kFiles) {
    out += ":files\n";
  } else if (completion.kind == Kind::kDirectories) {
    out += ":directories\n";
  }
  context.console.print(out);
  co_return 0;
}

}  // namespace atl::cli
