#include "proxy/http/sse_filter.h"

#include "base/strings.h"
#include "proxy/http/limits.h"

namespace atl::proxy::http {

Result<std::string> SseFilter::feed(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    if (c == '\n' && std::exchange(after_return_, false)) {
      continue;
    }
    after_return_ = c == '\r';
    if (c == '\r' || c == '\n') {
      end_line(out);
      continue;
    }
    line_ += c;
    if (held_bytes() > kMaxAnswerBytes) {
      return fail(Code::kUnavailable, "an event of the MCP server is too large to be checked");
    }
  }
  TRY_DO(share_.hold(held_bytes()));
  return out;
}

Result<std::string> SseFilter::finish() {
  // An event that is not complete is no event: whoever reads it would drop it.
  return std::string{};
}

void SseFilter::end_line(std::string& out) {
  const std::string line = std::exchange(line_, {});
  if (line.empty()) {
    end_event(out);
    return;
  }
  const std::string_view text{line};
  if (text.starts_with(':')) {
    out.append(text).append("\n");  // a comment, often a sign of life: at once
    return;
  }
  if (text == "data" || text.starts_with("data:")) {
    auto value = text.size() > 5 ? text.substr(5) : std::string_view{};
    if (value.starts_with(' ')) {
      value.remove_prefix(1);
    }
    if (has_data_) {
      data_ += '\n';
    }
    data_ += value;
    has_data_ = true;
    return;
  }
  others_.append(text).append("\n");
}

void SseFilter::end_event(std::string& out) {
  out += std::exchange(others_, {});
  if (std::exchange(has_data_, false)) {
    std::string data = std::exchange(data_, {});
    if (auto message = Json::parse(data)) {
      Json changed = change_(*message);
      if (changed != *message) {
        data = changed.dump();
      }
    } else if (data.find("\"tools\"") != std::string::npos ||
               data.find("\\u") != std::string::npos) {
      // Not plain JSON, yet somebody might read tools out of it.
      data = R"({"jsonrpc":"2.0","method":"notifications/message",)"
             R"("params":{"level":"error","data":"a message was withheld: malformed"}})";
    }
    for (const auto piece : split(data, '\n')) {
      out.append("data: ").append(piece).append("\n");
    }
  }
  out += "\n";
}

}  // namespace atl::proxy::http
