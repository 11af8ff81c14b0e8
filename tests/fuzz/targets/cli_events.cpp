// What a server, or something in its place, says to the command line.
#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/event_stream.h"
#include "fuzz.h"

namespace atl::fuzz {
namespace {

std::string decode(const std::vector<std::string_view>& parts) {
  cli::EventDecoder decoder;
  std::string seen;
  for (const auto part : parts) {
    const auto events = decoder.feed(part);
    if (!events) {
      return "broken";  // how much was seen before depends on where it was cut
    }
    for (const auto& event : *events) {
      if (const auto* output = std::get_if<cli::OutputEvent>(&event)) {
        seen += concat(output->to_error ? "error " : "output ", output->offset, " ", output->data);
      } else {
        seen += concat("exit ", std::get<cli::ExitEvent>(event).status(), "\n");
      }
    }
  }
  return seen + (decoder.at_line_start() ? "" : "cut short");
}

}  // namespace

void cli_events(std::string_view input) {
  same_for_every_cut(input, decode);
  for (const int status : {200, 404, 503, 999}) {
    CHECK(!cli::error_from_answer(status, input).message.empty());
  }
}

Seeds cli_events_seeds() {
  return {
      R"({"type":"output","source":"stdout","data_base64":"aGVsbG8=","offset":0})"
      "\n"
      R"({"type":"exit","exit_code":3,"state":"crashed"})"
      "\n",
      R"({"type":"exit","signal":9,"timed_out":true,"state":"killed"})"
      "\n\n",
      R"({"type":"new-kind"})"
      "\n",
      R"({"type":"output","data_base64":"?","offset":-1})"
      "\n",
      R"({"type":"exit","exit_code":99999999999})"
      "\n",
      "[]\n",
      "no json\n",
      R"({"success":false,"error":{"code":"not_found","message":"m","details":{"reason":"r"}}})",
      R"({"error":"from a proxy"})",
      R"({"error":[]})"};
}

}  // namespace atl::fuzz
