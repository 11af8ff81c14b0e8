// One line per event: a constant message and typed fields.
//
//   LOG_INFO("sandbox started", {"sandbox", id}, {"ms", elapsed_ms});
//
// JSON lines when standard error is not a terminal, aligned text when it is. Levels: error (a
// person must act), warn (degraded), info (a user-visible thing changed state), debug (off).
// Secrets are wrapped in Secret, which always prints as ***. Thread-safe; one write(2) per line.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/error.h"

namespace atl {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarn, kError };
enum class LogFormat : std::uint8_t { kJson, kText };

// A value that must never be printed. Only `reveal()` gives it back.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}
  const std::string& reveal() const { return value_; }

 private:
  std::string value_;
};

struct LogField {
  enum class Kind : std::uint8_t { kString, kSigned, kUnsigned, kDouble, kBool };

  LogField(std::string_view k, std::string_view v) : key(k), kind(Kind::kString), text(v) {}
  LogField(std::string_view k, const char* v) : LogField(k, std::string_view{v}) {}
  LogField(std::string_view k, const std::string& v) : LogField(k, std::string_view{v}) {}
  LogField(std::string_view k, const Secret&) : LogField(k, std::string_view{"***"}) {}
  LogField(std::string_view k, const Error& v) : LogField(k, std::string_view{v.message}) {}
  LogField(std::string_view k, bool v) : key(k), kind(Kind::kBool), number(v ? 1 : 0) {}
  LogField(std::string_view k, double v) : key(k), kind(Kind::kDouble), real(v) {}
  template <std::integral T>
  LogField(std::string_view k, T v)
      : key(k),
        kind(std::is_signed_v<T> ? Kind::kSigned : Kind::kUnsigned),
        number(static_cast<std::uint64_t>(v)) {}

  std::string_view key;
  Kind kind;
  std::string_view text;
  std::uint64_t number = 0;
  double real = 0;
};

// Set once at start, before threads exist.
void log_configure(LogLevel least, LogFormat format, std::string_view process_name);
void log_write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields);

}  // namespace atl

#define LOG_DEBUG(message, ...) ::atl::log_write(::atl::LogLevel::kDebug, message, {__VA_ARGS__})
#define LOG_INFO(message, ...) ::atl::log_write(::atl::LogLevel::kInfo, message, {__VA_ARGS__})
#define LOG_WARN(message, ...) ::atl::log_write(::atl::LogLevel::kWarn, message, {__VA_ARGS__})
#define LOG_ERROR(message, ...) ::atl::log_write(::atl::LogLevel::kError, message, {__VA_ARGS__})
