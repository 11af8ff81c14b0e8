#include "service/e2b/envd/process_text.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "control/repl_definition.h"
#include "control/template_start.h"
#include "service/e2b/envd/binary_codec.h"

namespace atl::service::e2b::envd {
namespace {

constexpr std::string_view kLabelPrefix = "e2b:";

struct SignalText {
  std::uint32_t number;
  std::string_view text;
};
constexpr std::array<SignalText, 16> kSignalTexts{{{1, "hangup"},
                                                   {2, "interrupt"},
                                                   {3, "quit"},
                                                   {4, "illegal instruction"},
                                                   {5, "trace/breakpoint trap"},
                                                   {6, "aborted"},
                                                   {7, "bus error"},
                                                   {8, "floating point exception"},
                                                   {9, "killed"},
                                                   {10, "user defined signal 1"},
                                                   {11, "segmentation fault"},
                                                   {12, "user defined signal 2"},
                                                   {13, "broken pipe"},
                                                   {14, "alarm clock"},
                                                   {15, "terminated"},
                                                   {16, "stack fault"}}};

std::string signal_text(std::uint32_t number) {
  const auto row = std::ranges::find(kSignalTexts, number, &SignalText::number);
  return row == kSignalTexts.end() ? concat("signal ", number) : std::string{row->text};
}

// The label is the sandbox's word by now: anything but what we wrote counts as nothing.
Json parse_label(const guest::ProcessInfo& process) {
  const std::string_view label = process.label;
  if (label.starts_with(kLabelPrefix)) {
    auto value = Json::parse(label.substr(kLabelPrefix.size()));
    if (value && value->as_object() != nullptr) {
      return *std::move(value);
    }
  }
  return Json::object();
}

bool is_string_map(const Json* value) {
  return value != nullptr && value->as_object() != nullptr &&
         std::ranges::all_of(*value->as_object(), [](const Json::Member& member) {
           return member.second.as_string() != nullptr;
         });
}

}  // namespace

std::string encode_output(Codec codec, const guest::Output& output) {
  const bool out = output.header.stream == guest::Stream::kStdout;
  const bool error = output.header.stream == guest::Stream::kStderr;
  if (codec == Codec::kJson) {
    const std::string_view stream = out ? "stdout" : error ? "stderr" : "pty";
    return concat(R"({"event":{"data":{")", stream, R"(":")", base64_encode(output.bytes),
                  R"("}}})");
  }
  constexpr std::uint32_t kEventNumber = 1;
  constexpr std::uint32_t kDataNumber = 2;
  std::string content = binary_block(out ? 1 : error ? 2 : 3, output.bytes);
  content = binary_block(kDataNumber, content);
  return binary_block(kEventNumber, content);
}

Json end_event(const guest::ExitStatus& status) {
  const bool failed = !status.exited || status.exit_code != 0;
  const std::string text = status.exited ? concat("exit status ", status.exit_code)
                                         : concat("signal: ", signal_text(status.signal));
  Json end =
      Json::object({{"exitCode", status.exited ? static_cast<std::int64_t>(status.exit_code) : -1},
                    {"exited", status.exited},
                    {"status", text}});
  if (failed) {
    end.set("error", text);
  }
  return end;
}

std::optional<Json> process_json(const guest::ProcessInfo& process) {
  if (process.has_channel || control::repl_of(process)) {
    return std::nullopt;
  }
  Json arguments = Json::array();
  for (std::size_t i = 1; i < process.argv.size(); ++i) {
    arguments.push(to_valid_utf8(process.argv[i]));
  }
  const Json label = parse_label(process);
  const Json* envs = label.find("envs");
  Json config = Json::object({{"cmd", to_valid_utf8(process.argv.front())},
                              {"args", std::move(arguments)},
                              {"envs", is_string_map(envs) ? *envs : Json::object()},
                              {"cwd", to_valid_utf8(process.cwd)}});
  Json json = Json::object({{"config", std::move(config)}, {"pid", process.pid}});
  if (const std::string tag = process_tag(process); !tag.empty()) {
    json.set("tag", tag);
  }
  return json;
}

std::string process_tag(const guest::ProcessInfo& process) {
  if (process.process_id == control::kStartProcess) {
    return process.process_id;
  }
  const Json label = parse_label(process);
  const Json* tag = label.find("tag");
  return tag != nullptr && tag->as_string() != nullptr ? *tag->as_string() : std::string{};
}

std::string process_label(const std::string& tag, const Json& envs) {
  Json label = Json::object();
  if (!tag.empty()) {
    label.set("tag", tag);
  }
  std::string text = concat(kLabelPrefix, Json{label}.set("envs", envs).dump());
  return text.size() <= guest::kMaxLabelBytes ? text : concat(kLabelPrefix, label.dump());
}

}  // namespace atl::service::e2b::envd
