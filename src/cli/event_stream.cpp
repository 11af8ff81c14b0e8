#include "cli/event_stream.h"

#include <csignal>
#include <cstring>

#include "base/strings.h"
#include "cli/limits.h"

namespace atl::cli {
namespace {

constexpr int kMaxSignal = 64;

std::optional<std::int64_t> integer_member(const Json& json, std::string_view key) {
  const Json* member = json.find(key);
  const auto* value = member == nullptr ? nullptr : member->as_integer();
  return value == nullptr ? std::nullopt : std::optional{*value};
}

std::string_view string_member(const Json& json, std::string_view key) {
  const Json* member = json.find(key);
  const auto* value = member == nullptr ? nullptr : member->as_string();
  return value == nullptr ? std::string_view{} : std::string_view{*value};
}

Result<OutputEvent> decode_output(const Json& json) {
  OutputEvent event;
  event.to_error = string_member(json, "source") == "stderr";
  event.is_channel = string_member(json, "source") == "channel";
  auto data = base64_decode(string_member(json, "data_base64"));
  if (!data) {
    return fail(Code::kDataLoss, "the server sent output that is not base64");
  }
  event.data = *std::move(data);
  const auto offset = integer_member(json, "offset");
  if (offset && *offset < 0) {
    return fail(Code::kDataLoss, "the server sent output with a negative offset");
  }
  event.offset = static_cast<std::uint64_t>(offset.value_or(0));
  return event;
}

}  // namespace

ExitEvent decode_exit(const Json& json) {
  ExitEvent event;
  event.state = string_member(json, "state");
  if (const auto code = integer_member(json, "exit_code"); code && *code >= 0 && *code <= 255) {
    event.exit_code = static_cast<int>(*code);
  }
  if (const auto number = integer_member(json, "signal")) {
    event.signal = parse_signal(std::to_string(*number));
  } else {
    event.signal = parse_signal(string_member(json, "signal"));
  }
  const Json* timed_out = json.find("timed_out");
  event.timed_out = (timed_out != nullptr && timed_out->as_bool() && *timed_out->as_bool()) ||
                    event.state == "timed_out";
  return event;
}

int ExitEvent::status() const {
  if (timed_out) {
    return kTimeoutStatus;
  }
  if (signal) {
    return 128 + *signal;
  }
  if (exit_code) {
    return *exit_code;
  }
  return state == "killed" ? 128 + SIGKILL : kOwnFailureStatus;
}

Result<std::optional<ContextEvent>> decode_event(const Json& json) {
  const auto type = string_member(json, "type");
  if (type == "output") {
    TRY(auto event, decode_output(json));
    return std::optional<ContextEvent>{std::move(event)};
  }
  if (type == "exit") {
    return std::optional<ContextEvent>{decode_exit(json)};
  }
  if (type == "error") {
    const auto message = string_member(json, "message");
    return fail(Code::kInternal, message.empty() ? std::string{"the server lost the process"}
                                                 : std::string{message});
  }
  if (type.empty()) {
    return fail(Code::kDataLoss, "the server sent an event without a type");
  }
  return std::optional<ContextEvent>{};
}

std::optional<int> parse_signal(std::string_view text) {
  if (const auto number = parse_u64(text)) {
    return *number >= 1 && *number <= kMaxSignal ? std::optional{static_cast<int>(*number)}
                                                 : std::nullopt;
  }
  if (text.starts_with("SIG")) {
    text.remove_prefix(3);
  }
  for (int number = 1; number < kMaxSignal && !text.empty(); ++number) {
    const char* name = ::sigabbrev_np(number);
    if (name != nullptr && text == name) {
      return number;
    }
  }
  return std::nullopt;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? std::to_string(signal) : concat("SIG", name);
}

Result<std::vector<ContextEvent>> EventDecoder::feed(std::string_view bytes) {
  std::vector<ContextEvent> events;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const auto piece = bytes.substr(0, end);
    if (partial_.size() + piece.size() > kMaxStreamLineBytes) {
      return fail(Code::kDataLoss, "the server sent a line that is too long");
    }
    if (end == std::string_view::npos) {
      partial_ += piece;
      break;
    }
    bytes.remove_prefix(end + 1);
    if (partial_.empty()) {
      TRY_DO(take_line(piece, events));
    } else {
      partial_ += piece;
      const std::string line = std::exchange(partial_, {});
      TRY_DO(take_line(line, events));
    }
  }
  return events;
}

Result<> EventDecoder::take_line(std::string_view line, std::vector<ContextEvent>& events) {
  line = trim(line);
  if (line.empty()) {
    return {};
  }
  auto json = Json::parse(line);
  if (!json) {
    return fail(Code::kDataLoss, "the server sent a line that is not JSON");
  }
  TRY(auto event, decode_event(*json));
  if (event) {
    events.push_back(*std::move(event));
  }
  return {};
}

}  // namespace atl::cli
