#include "control/transcript.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace atl::control {
namespace {

constexpr std::size_t kMaxMimeTypes = 32;
constexpr std::size_t kMaxMimeTypeBytes = 128;

std::string text_of(const Json& body, std::string_view name) {
  const Json* value = body.find(name);
  const auto* text = value == nullptr ? nullptr : value->as_string();
  return text == nullptr ? std::string{} : *text;
}

// About what a value takes in memory: an array of small numbers has twenty times its text.
std::size_t memory_bytes(const Json& value) {
  std::size_t bytes = sizeof(Json);
  if (const auto* text = value.as_string()) {
    bytes += text->size();
  } else if (const auto* elements = value.as_array()) {
    for (const Json& element : *elements) {
      bytes += memory_bytes(element);
    }
  } else if (const auto* members = value.as_object()) {
    for (const auto& [name, member] : *members) {
      bytes += sizeof(std::string) + name.size() + memory_bytes(member);
    }
  }
  return bytes;
}

// The bundle out of a message, when its every part is what its type allows.
std::optional<Json> take_bundle(Json& body) {
  const auto data = std::ranges::find(*body.as_object(), "data", &Json::Member::first);
  const auto* members =
      data == body.as_object()->end() ? nullptr : std::as_const(data->second).as_object();
  if (members == nullptr || members->empty() || members->size() > kMaxMimeTypes) {
    return std::nullopt;
  }
  for (const auto& [mime, value] : *members) {
    if (mime.empty() || mime.size() > kMaxMimeTypeBytes || mime.find('/') == std::string::npos ||
        (value.as_string() == nullptr && mime != "application/json" && !mime.ends_with("+json"))) {
      return std::nullopt;
    }
  }
  return std::move(data->second);
}

ExecutionStatus status_of(std::string_view word) {
  if (word == "ok") {
    return ExecutionStatus::kOk;
  }
  return word == "interrupted" ? ExecutionStatus::kInterrupted : ExecutionStatus::kError;
}

}  // namespace

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCompleted:
      return "completed";
    case Outcome::kTimedOut:
      return "timed_out";
    case Outcome::kKilled:
      return "killed";
    case Outcome::kLost:
      return "lost";
    case Outcome::kNeverStarted:
      return "never_started";
  }
  return "lost";
}

std::string_view execution_status_name(ExecutionStatus status) {
  switch (status) {
    case ExecutionStatus::kOk:
      return "ok";
    case ExecutionStatus::kError:
      return "error";
    case ExecutionStatus::kInterrupted:
      return "interrupted";
    case ExecutionStatus::kIncomplete:
      return "incomplete";
  }
  return "error";
}

void ChannelLines::append(std::string_view bytes) {
  if (skipping_) {
    const auto end = bytes.find('\n');
    if (end == std::string_view::npos) {
      return;
    }
    bytes.remove_prefix(end + 1);
    skipping_ = false;
  }
  pending_ += bytes;
  const auto last = pending_.rfind('\n');
  const std::size_t open = last == std::string::npos ? 0 : last + 1;
  if (pending_.size() - open > max_bytes_) {
    pending_.resize(open);
    searched_ = std::min(searched_, open);
    skipping_ = true;
    skipped_ = true;
  }
}

std::optional<std::string> ChannelLines::next() {
  const auto end = pending_.find('\n', searched_);
  if (end == std::string::npos) {
    searched_ = pending_.size();
    return std::nullopt;
  }
  std::string line = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  searched_ = 0;
  if (line.size() > max_bytes_) {
    skipped_ = true;
    line.clear();
  }
  return line;
}

std::optional<ChannelMessage> parse_channel_message(std::string_view line) {
  auto body = Json::parse(line);
  if (!body || body->as_object() == nullptr) {
    return std::nullopt;
  }
  ChannelMessage message{text_of(*body, "op"), text_of(*body, "id"), {}};
  if (message.op.empty()) {
    return std::nullopt;
  }
  message.body = *std::move(body);
  return message;
}

Transcript::Transcript(CaptureBudget& budget, std::string id, bool keep_output)
    : budget_(budget),
      id_(std::move(id)),
      keep_output_(keep_output),
      standard_output_(budget),
      standard_error_(budget),
      combined_(budget) {}

void Transcript::release_results() {
  budget_.used_bytes -= result_bytes_;
  result_bytes_ = 0;
}

void Transcript::add(const guest::Output& output) {
  if (done_) {
    return;
  }
  end_offset_ = std::max(end_offset_, output.header.offset + output.bytes.size());
  if (output.header.stream != guest::Stream::kChannel && !keep_output_) {
    return;
  }
  if (output.header.stream != guest::Stream::kChannel) {
    combined_.append(output.bytes);
    (output.header.stream == guest::Stream::kStderr ? standard_error_ : standard_output_)
        .append(output.bytes);
    return;
  }
  lines_.append(output.bytes);
  while (auto line = lines_.next()) {
    if (auto message = parse_channel_message(*line); message && !done_) {
      handle(*std::move(message), line->size());
    }
  }
}

void Transcript::handle(ChannelMessage message, std::size_t bytes) {
  if (message.id != id_) {
    return;
  }
  if (message.op == "done") {
    result_.status = status_of(text_of(message.body, "status"));
    const Json* code = message.body.find("exit_code");
    if (const auto* value = code == nullptr ? nullptr : code->as_integer();
        value != nullptr && *value >= 0 && *value <= 255) {
      result_.exit_code = static_cast<std::uint32_t>(*value);
    }
    const Json* count = message.body.find("count");
    if (const auto* value = count == nullptr ? nullptr : count->as_integer();
        value != nullptr && *value > 0) {
      result_.execution_count = static_cast<std::uint64_t>(*value);
    }
    done_ = true;
    return;
  }
  if (message.op != "result" && message.op != "display" && message.op != "error") {
    return;
  }
  std::optional<Json> bundle;
  if (message.op != "error") {
    bundle = take_bundle(message.body);
    if (!bundle) {
      return;
    }
    bytes = std::max(bytes, memory_bytes(*bundle));
  }
  if (result_bytes_ + bytes > kMaxResultBytes || budget_.used_bytes + bytes > budget_.max_bytes) {
    result_.truncated = true;
    return;
  }
  if (bundle) {
    result_.results.push_back({*std::move(bundle), message.op == "result"});
  } else {
    result_.error = ExecutionError{text_of(message.body, "name"), text_of(message.body, "value"),
                                   text_of(message.body, "traceback")};
  }
  result_bytes_ += bytes;
  budget_.used_bytes += bytes;
}

void end_by(InterpreterResult& result, const guest::ExitStatus& exit) {
  result.running = false;
  if (exit.timed_out || exit.idle_timed_out || !exit.exited) {
    result.outcome = Outcome::kKilled;
    result.signal = exit.signal;
    result.status = ExecutionStatus::kInterrupted;
    return;
  }
  result.exit_code = exit.exit_code;
  result.status = exit.exit_code == 0 ? ExecutionStatus::kOk : ExecutionStatus::kError;
}

void Transcript::end_by(const guest::ExitStatus& exit) {
  control::end_by(result_, exit);
  done_ = true;
}

std::vector<RichResult> Transcript::take_results() {
  release_results();
  return std::exchange(result_.results, {});
}

InterpreterResult Transcript::take() {
  result_.truncated = result_.truncated || lines_.skipped() || standard_output_.truncated() ||
                      standard_error_.truncated() || combined_.truncated();
  result_.standard_output = standard_output_.take();
  result_.standard_error = standard_error_.take();
  result_.combined = combined_.take();
  return std::move(result_);
}

}  // namespace atl::control
