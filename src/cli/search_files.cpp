// `atoll files glob` and `atoll files grep`: the sandbox searches, only what it finds travels.
#include "cli/search_files.h"

#include "base/strings.h"
#include "cli/api.h"
#include "cli/console.h"

namespace atl::cli {
namespace {

using Action = FilesOptions::Action;

std::string query_of(const SandboxPlace& place, const FilesOptions& options) {
  const auto path = place.path.empty() ? std::string_view{"."} : std::string_view{place.path};
  std::string query = concat("&pattern=", http::percent_encode(options.pattern));
  for (const auto& glob : options.excluded) {
    query += concat("&exclude=", http::percent_encode(glob));
  }
  if (options.ignore_case) {
    query += "&ignore_case=true";
  }
  if (!options.user.empty()) {
    query += concat("&user=", http::percent_encode(options.user));
  }
  if (options.action == Action::kGrep) {
    for (const auto& glob : options.included) {
      query += concat("&include=", http::percent_encode(glob));
    }
    if (options.fixed) {
      query += "&fixed=true";
    }
    if (options.context_lines > 0) {
      query += concat("&context=", options.context_lines);
    }
  }
  const auto verb = options.action == Action::kGrep ? "/grep" : "/glob";
  return file_path(place.sandbox_id, verb, path) + query;
}

std::string render_name(const CommandContext&, const Json& entry) {
  return concat(printable(text_member(entry, "path")),
                text_member(entry, "type") == "dir" ? "/" : "", "\n");
}

// As grep prints it: a colon behind what matches, a dash behind what is around it.
std::string render_line(const CommandContext& context, const Json& match) {
  const Json* around = match.find("context");
  const bool is_context = around != nullptr && around->as_bool() != nullptr && *around->as_bool();
  const Json* number = match.find("line");
  const auto mark = is_context ? "-" : ":";
  return concat(context.console.paint_output(Colour::kGreen, printable(text_member(match, "path"))),
                mark, number != nullptr && number->as_integer() ? *number->as_integer() : 0, mark,
                printable(text_member(match, "text")), "\n");
}

bool is_set(const Json& answer, std::string_view key) {
  const Json* flag = answer.find(key);
  return flag != nullptr && flag->as_bool() != nullptr && *flag->as_bool();
}

}  // namespace

Task<bool> search_place(CommandContext& context, Api& api, SandboxPlace place,
                        const FilesOptions& options) {
  CO_TRY(const auto answer,
         co_await api.call("GET", query_of(place, options), std::nullopt, kSearchDeadline));
  const bool lines = options.action == Action::kGrep;
  const Json* found = answer.find(lines ? "matches" : "entries");
  const auto* entries = found == nullptr ? nullptr : found->as_array();
  if (entries == nullptr) {
    co_return fail(Code::kDataLoss, "the server sent an answer without results");
  }
  if (context.options.json) {
    context.console.print(answer.dump_pretty() + "\n");
    co_return !entries->empty();
  }
  std::string out;
  for (const auto& entry : *entries) {
    out += lines ? render_line(context, entry) : render_name(context, entry);
  }
  context.console.print(out);
  if (is_set(answer, "truncated") && !context.options.quiet) {
    context.console.report(is_set(answer, "timed_out") ? "the search took too long: this is a part"
                                                       : "there is more: this is a part",
                           "search below a deeper directory or for something narrower");
  }
  co_return !entries->empty();
}

}  // namespace atl::cli
