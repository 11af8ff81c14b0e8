#include "base/log.h"

#include <unistd.h>

#include <charconv>
#include <climits>
#include <cmath>
#include <ctime>

#include "base/before_abort.h"
#include "base/log_gather.h"
#include "base/strings.h"

namespace atl {
namespace {

struct LogSettings {
  LogLevel least = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  std::string process = "atoll";
};

LogSettings& settings() {
  static LogSettings instance;
  return instance;
}

constexpr std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

// Others write to the same pipe: what is no longer than this arrives in one piece.
constexpr std::size_t kMaxGatheredBytes = PIPE_BUF;

void write_lines(std::string_view lines) {
  // A log line that cannot be written has nowhere to be reported.
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, lines.data(), lines.size());
}

struct Gathered {
  ~Gathered() { flush(); }
  void flush() {
    if (!lines.empty()) {
      write_lines(lines);
      lines.clear();
    }
  }
  bool on = false;
  std::string lines;
};

Gathered& gathered() {
  thread_local Gathered instance;
  return instance;
}

template <class Number>
void append_number(std::string& out, Number value) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  out.append(buffer, end);
}

void append_value(std::string& out, const LogField& field, bool quote) {
  switch (field.kind) {
    case LogField::Kind::kString:
      if (quote) {
        append_json_string(out, field.text);
      } else {
        append_printable(out, field.text);
      }
      break;
    case LogField::Kind::kSigned:
      append_number(out, static_cast<std::int64_t>(field.number));
      break;
    case LogField::Kind::kUnsigned:
      append_number(out, field.number);
      break;
    case LogField::Kind::kDouble:
      append_number(out, std::isfinite(field.real) ? std::round(field.real * 1000) / 1000 : 0.0);
      break;
    case LogField::Kind::kBool:
      out += field.number != 0 ? "true" : "false";
      break;
  }
}

}  // namespace

void log_configure(LogLevel least, LogFormat format, std::string_view process_name) {
  settings() = {least, format, std::string{process_name}};
}

void log_write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  const auto& set = settings();
  if (level < set.least) {
    return;
  }
  std::timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::string line;
  line.reserve(256);
  if (set.format == LogFormat::kJson) {
    line += R"({"time":)";
    append_json_string(line, format_rfc3339(now.tv_sec, now.tv_nsec));
    line += R"(,"level":")";
    line += level_name(level);
    line += R"(","process":)";
    append_json_string(line, set.process);
    line += R"(,"message":)";
    append_json_string(line, message);
    for (const auto& field : fields) {
      line += ',';
      append_json_string(line, field.key);
      line += ':';
      append_value(line, field, true);
    }
    line += "}\n";
  } else {
    line += format_rfc3339(now.tv_sec, now.tv_nsec).substr(11, 12);
    line += ' ';
    line += level_name(level);
    line.append(level_name(level).size() == 4 ? 2 : 1, ' ');
    line += set.process;
    line += ": ";
    append_printable(line, message);
    for (const auto& field : fields) {
      line += "  ";
      line += field.key;
      line += '=';
      append_value(line, field, false);
    }
    line += '\n';
  }
  Gathered& mine = gathered();
  if (!mine.on) {
    write_lines(line);
    return;
  }
  if (mine.lines.size() + line.size() > kMaxGatheredBytes) {
    mine.flush();
  }
  mine.lines += line;
  if (level > LogLevel::kInfo || mine.lines.size() >= kMaxGatheredBytes) {
    mine.flush();
  }
}

void log_gather() {
  gathered().on = true;
  before_abort = log_flush;
}

void log_flush() {
  gathered().flush();
}

}  // namespace atl
