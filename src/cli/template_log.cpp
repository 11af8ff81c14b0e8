#include "cli/template_log.h"

#include <array>
#include <optional>

#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/progress.h"

namespace atl::cli {
namespace {

constexpr std::size_t kMaxLineBytes = 4U << 20;

class LogPrinter {
 public:
  explicit LogPrinter(const CommandContext& context) : context_(context) {}

  Result<> take(std::string_view line) {
    const auto record = Json::parse(line);
    if (!record) {
      return fail(Code::kDataLoss, "the server sent a log that is no JSON");
    }
    const std::string type = text_member(*record, "type");
    if (type == "alive") {
      return {};
    }
    if (context_.options.json) {
      context_.console.print(concat(line, "\n"));
    } else if (!context_.options.quiet) {
      show(type, *record);
    }
    if (type == "done") {
      done_ = true;
    } else if (type == "error") {
      return fail(Code::kFailedPrecondition, text_member(*record, "message"), "template_failed");
    }
    return {};
  }
  bool done() const { return done_; }
  const std::string& now() const { return now_; }

 private:
  static std::string number(const Json& record, std::string_view key) {
    const Json* value = record.find(key);
    return value != nullptr && value->as_integer() != nullptr ? concat(*value->as_integer()) : "?";
  }

  void show(std::string_view type, const Json& record) {
    const Console& console = context_.console;
    const std::string text = text_member(record, "text");
    if (type == "step") {
      now_ = printable(text);
      console.complain(console.paint_error(
          Colour::kBold,
          concat("[", number(record, "step"), "/", number(record, "total"), "] ", now_, "\n")));
    } else if (type == "cached") {
      console.complain(console.paint_error(Colour::kDim, "      cached\n"));
    } else if (type == "note") {
      now_ = printable(text);
      console.complain(console.paint_error(Colour::kDim, concat("      ", now_, "\n")));
    } else if (type == "output") {
      // Of a sandbox: escape sequences must not reach a terminal from a build nobody watches.
      console.print(console.output_is_terminal() ? printable_lines(text) : text);
    }
  }

  static std::string printable_lines(std::string_view text) {
    std::string out;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      out += printable(text.substr(begin, end - begin));
      out += end < text.size() ? "\n" : "";
      begin = end + 1;
    }
    return out;
  }

  const CommandContext& context_;
  std::string now_ = "waiting for the server";
  bool done_ = false;
};

Task<> read_log(http::ClientResponse& response, LogPrinter& printer, const Endpoint& endpoint) {
  std::array<char, 32 * 1024> buffer;
  std::string partial;
  for (;;) {
    auto got = co_await response.body().read(buffer);
    if (!got) {
      co_return fail(transport_error(std::move(got).error(), endpoint));
    }
    if (*got == 0) {
      co_return ok();
    }
    partial.append(buffer.data(), *got);
    std::size_t begin = 0;
    for (std::size_t end = partial.find('\n'); end != std::string::npos;
         end = partial.find('\n', begin)) {
      if (end > begin) {
        CO_TRY_DO(printer.take(std::string_view{partial}.substr(begin, end - begin)));
      }
      begin = end + 1;
    }
    partial.erase(0, begin);
    if (partial.size() > kMaxLineBytes) {
      co_return fail(Code::kDataLoss, "the server sent a log without line ends");
    }
  }
}

}  // namespace

Task<int> show_template_log(CommandContext& context, http::ClientResponse& response,
                            std::string name) {
  LogPrinter printer{context};
  CO_TRY_DO(co_await with_progress(
      context.console, context.options.quiet, [&printer] { return printer.now(); },
      read_log(response, printer, context.endpoint)));
  if (!printer.done()) {
    co_return fail(Code::kUnavailable, "the server ended the log before the template was made");
  }
  if (!context.options.json) {
    context.console.print(printable(name) + "\n");
  }
  co_return 0;
}

}  // namespace atl::cli
