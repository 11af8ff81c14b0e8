// What an interpreter's driver, or any program beside it, writes on its channel and its streams.
#include "base/strings.h"
#include "control/transcript.h"
#include "fuzz.h"

namespace atl::fuzz {
namespace {

constexpr std::size_t kMaxLineBytes = 200;

std::string lines_of(const std::vector<std::string_view>& parts) {
  control::ChannelLines lines{kMaxLineBytes};
  std::string seen;
  for (const auto part : parts) {
    lines.append(part);
    while (const auto line = lines.next()) {
      CHECK(line->size() <= kMaxLineBytes && line->find('\n') == line->npos);
      if (!line->empty()) {
        seen += concat(*line, "\n");
      }
    }
  }
  return seen;
}

// Everything but the place where a stream was cut.
std::string run(const std::vector<std::string_view>& parts) {
  control::CaptureBudget budget;
  std::string seen;
  {
    control::Transcript transcript{budget, "id"};
    std::uint64_t offset = 0;
    for (const auto part : parts) {
      transcript.add({{guest::Stream::kChannel, offset}, part});
      offset += part.size();
    }
    seen = concat(transcript.done() ? "done " : "open ");
    const auto result = transcript.take();
    for (const auto& each : result.results) {
      CHECK(each.data.as_object() != nullptr && !each.data.as_object()->empty());
      seen += concat(each.data.dump(), each.is_main ? " main\n" : "\n");
    }
    seen += result.error ? concat("error ", result.error->name, result.error->value) : "";
    seen += concat(execution_status_name(result.status), result.exit_code.value_or(999));
  }
  CHECK(budget.used_bytes == 0);
  return seen;
}

}  // namespace

void interpreter_channel(std::string_view input) {
  same_for_every_cut(input, lines_of);
  same_for_every_cut(input, run);
  control::CaptureBudget budget;
  control::Transcript transcript{budget, "id"};
  for (const auto piece : pieces(input, Cut::kUneven)) {
    const auto stream = static_cast<guest::Stream>(1 + static_cast<unsigned char>(piece[0]) % 4);
    transcript.add({{stream, static_cast<unsigned char>(piece[0]) * UINT64_MAX / 255}, piece});
  }
  transcript.end_by({.exited = input.size() % 2 == 0, .exit_code = 3, .signal = 9});
  (void)transcript.take();
}

Seeds interpreter_channel_seeds() {
  return {R"({"op":"ready"})"
          "\n",
          R"({"op":"result","id":"id","data":{"text/plain":"1","application/json":{"a":[1]}}})"
          "\n"
          R"({"op":"done","id":"id","status":"ok"})"
          "\n",
          R"({"op":"display","id":"id","data":{"image/png":"aGVsbG8="}})"
          "\n"
          R"({"op":"error","id":"id","name":"E","value":"v","traceback":"t"})"
          "\n"
          R"({"op":"done","id":"id","status":"error","exit_code":300})"
          "\n",
          R"({"op":"done","id":"other"})"
          "\n[]\nnull\n{\n",
          R"({"op":"result","id":"id","data":{"x":"no slash"}})"
          "\n",
          R"({"op":1,"id":[]})"
          "\n",
          std::string(kMaxLineBytes + 1, 'x') + "\n{\"op\":\"ready\"}\n"};
}

}  // namespace atl::fuzz
