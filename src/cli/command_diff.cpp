// `atoll diff`: what a sandbox or a snapshot has that another moment had not. Changes are printed
// as they arrive, however many there are.
#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/commands.h"
#include "cli/drain.h"
#include "cli/sandbox.h"
#include "cli/save_body.h"
#include "cli/table.h"

namespace atl::cli {
namespace {

class ChangePrinter {
 public:
  explicit ChangePrinter(const CommandContext& context) : context_(context) {}

  Task<> operator()(std::string_view bytes) { co_return take(bytes); }

  Result<> finish() const {
    if (!partial_.empty()) {
      return fail(Code::kUnavailable, "the list of changes ended in the middle", kReasonTransport);
    }
    if (!context_.options.json && !context_.options.quiet) {
      context_.console.complain(
          concat(added_, " added, ", changed_, " changed, ", removed_, " removed\n"));
    }
    return {};
  }

 private:
  Result<> take(std::string_view bytes) {
    partial_ += bytes;
    std::string out;
    std::size_t begin = 0;
    for (auto end = partial_.find('\n'); end != std::string::npos;
         begin = end + 1, end = partial_.find('\n', begin)) {
      TRY_DO(show(std::string_view{partial_}.substr(begin, end - begin), out));
    }
    partial_.erase(0, begin);
    if (partial_.size() > kMaxStreamLineBytes) {
      return fail(Code::kDataLoss, "the server sent a change that is too long");
    }
    context_.console.print(out);
    return {};
  }

  Result<> show(std::string_view line, std::string& out) {
    const auto change = Json::parse(line);
    if (!change || change->as_object() == nullptr) {
      return fail(Code::kDataLoss, "the server sent a change that is no JSON");
    }
    if (const Json* error = change->find("error"); error != nullptr) {
      return fail(Code::kInternal, printable(text_member(*error, "message")));
    }
    const auto what = text_member(*change, "change");
    ++(what == "added" ? added_ : what == "removed" ? removed_ : changed_);
    if (context_.options.json) {
      out += concat(line, "\n");
      return {};
    }
    const auto path = printable(text_member(*change, "path"));
    if (context_.options.quiet) {
      out += path + "\n";
      return {};
    }
    const Json* size = change->find("size");
    const bool sized = what != "removed" && text_member(*change, "type") == "file" &&
                       size != nullptr && size->as_integer() != nullptr;
    const Console& console = context_.console;
    out += what == "added"     ? console.paint_output(Colour::kGreen, "A ")
           : what == "removed" ? console.paint_output(Colour::kRed, "D ")
                               : console.paint_output(Colour::kYellow, "M ");
    out += path;
    if (sized) {
      out += concat("  ", format_bytes(static_cast<unsigned long long>(*size->as_integer())));
    }
    out += '\n';
    return {};
  }

  const CommandContext& context_;
  std::string partial_;
  std::uint64_t added_ = 0;
  std::uint64_t changed_ = 0;
  std::uint64_t removed_ = 0;
};

// A snapshot by its id, a sandbox by its id or its name.
Task<std::string> resolve_from(Api& api, std::string word) {
  if (word.starts_with("snap-")) {
    co_return word;
  }
  co_return co_await resolve_sandbox(api, std::move(word));
}

}  // namespace

Task<int> command_diff(CommandContext& context, const DiffOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(std::string path, co_await resolve_state_path(api, options.id));
  path += concat("/diff?format=", options.tar.empty() ? "ndjson" : "tar");
  if (!options.from.empty()) {
    CO_TRY(const auto from, co_await resolve_from(api, options.from));
    path += concat("&from=", http::percent_encode(from));
  }
  if (!options.tar.empty()) {
    co_return co_await save_body(context, path, options.tar, "saving the changes");
  }
  CO_TRY(const auto response, co_await api.open(path));
  ChangePrinter printer{context};
  std::uint64_t bytes = 0;
  CO_TRY_DO(co_await drain(*response, context.endpoint, bytes, printer));
  CO_TRY_DO(printer.finish());
  co_return 0;
}

}  // namespace atl::cli
