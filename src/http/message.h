// HTTP messages as plain values, independent of the version on the wire.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/task.h"

namespace atl::http {

// Field lines in order; names compare without case.
class Headers {
 public:
  using Line = std::pair<std::string, std::string>;
  Headers() = default;
  Headers(std::initializer_list<Line> lines) : lines_(lines) {}

  void add(std::string_view name, std::string_view value) { lines_.emplace_back(name, value); }
  void set(std::string_view name, std::string_view value);  // replaces all of that name
  void remove(std::string_view name);
  template <class Predicate>  // of a Line
  void remove_if(Predicate predicate) {
    std::erase_if(lines_, predicate);
  }
  // The first value, or empty.
  std::string_view get(std::string_view name) const;
  bool has(std::string_view name) const;
  std::size_t count(std::string_view name) const;
  const std::vector<Line>& lines() const { return lines_; }

 private:
  std::vector<Line> lines_;
};

struct Request {
  std::string method;  // "GET"
  std::string target;  // as sent: "/a%20b?x=1"
  std::string path;    // of the target, still percent-encoded: "/a%20b"
  std::string query;   // without '?'
  Headers headers;
};

// Percent-decoding; nullopt on a malformed escape. `plus_is_space` for query values.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space = false);
std::string percent_encode(std::string_view text);  // everything but unreserved
// The decoded value of a query parameter, nullopt when absent or malformed.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

// The bytes of a message body, pulled by its reader. 0 means the end.
class Body {
 public:
  virtual ~Body() = default;
  virtual Task<std::size_t> read(std::span<char> buffer) = 0;
  virtual std::optional<std::uint64_t> length() const = 0;  // known from Content-Length
};

// Reads a whole small body; kResourceExhausted with reason request_too_large above the limit.
Task<std::string> read_all(Body& body, std::size_t max_bytes);

struct Response {
  int status = 200;
  Headers headers;
  std::string body;
};

std::string_view status_text(int status);

}  // namespace atl::http
