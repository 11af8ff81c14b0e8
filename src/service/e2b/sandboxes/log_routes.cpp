#include "service/e2b/sandboxes/log_routes.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/strings.h"
#include "service/e2b/lenient_fields.h"
#include "service/native/envelope.h"

namespace atl::service::e2b {
namespace {

using control::Permission;
using control::SandboxLogLine;

constexpr std::int64_t kMaxLines = 1000;
constexpr std::array<std::string_view, 4> kLevels{"debug", "info", "warn", "error"};

std::string_view level_name(SandboxLogLine::Level level) {
  return kLevels.at(static_cast<std::size_t>(level));
}

Json entry_json(const SandboxLogLine& line) {
  Json fields = Json::object({{"logger", line.source}});
  for (const auto& [name, value] : line.fields) {
    fields.set(name, value);
  }
  return Json::object({{"timestamp", native::rfc3339(line.at)},
                       {"level", level_name(line.level)},
                       {"message", line.message},
                       {"fields", std::move(fields)}});
}

// The line is JSON itself, as the CLI wants it.
Json line_json(const SandboxLogLine& line) {
  Json text = Json::object(
      {{"level", level_name(line.level)}, {"logger", line.source}, {"message", line.message}});
  for (const auto& [name, value] : line.fields) {
    text.set(name, value);
  }
  return Json::object({{"timestamp", native::rfc3339(line.at)}, {"line", text.dump()}});
}

struct LogQuery {
  std::optional<UnixMillis> cursor;
  std::size_t limit = kMaxLines;
  bool backward = false;
  std::size_t least_level = 0;
  std::string search;
};

Result<LogQuery> parse_query(std::string_view query, std::string_view cursor_name) {
  LogQuery wanted;
  TRY(wanted.cursor,
      query_integer(query, cursor_name, 0, std::numeric_limits<std::int64_t>::max()));
  TRY(const auto limit, query_integer(query, "limit", 0, kMaxLines));
  wanted.limit = static_cast<std::size_t>(limit.value_or(kMaxLines));
  const std::string direction = http::query_value(query, "direction").value_or("forward");
  if (direction != "forward" && direction != "backward") {
    return fail(Code::kInvalidArgument, "direction is forward or backward");
  }
  wanted.backward = direction == "backward";
  if (const auto level = http::query_value(query, "level")) {
    const auto* const found = std::ranges::find(kLevels, *level);
    if (found == kLevels.end()) {
      return fail(Code::kInvalidArgument, "level is debug, info, warn or error");
    }
    wanted.least_level = static_cast<std::size_t>(found - kLevels.begin());
  }
  wanted.search = http::query_value(query, "search").value_or("");
  return wanted;
}

std::vector<SandboxLogLine> choose(std::vector<SandboxLogLine> lines, const LogQuery& query) {
  std::erase_if(lines, [&](const SandboxLogLine& line) {
    const bool too_far =
        query.cursor && (query.backward ? line.at > *query.cursor : line.at < *query.cursor);
    return too_far || static_cast<std::size_t>(line.level) < query.least_level ||
           !line.message.contains(query.search);
  });
  if (query.backward) {
    std::ranges::reverse(lines);
  }
  lines.resize(std::min(lines.size(), query.limit));
  return lines;
}

}  // namespace

void LogRoutes::add_to(E2bRoutes& routes) {
  routes.add("GET", "/sandboxes/{id}/logs", Permission::kSandboxRead,
             [this](E2bExchange& e, const auto& p) { return read_v1(e, parameter(p, "id")); });
  routes.add("GET", "/v2/sandboxes/{id}/logs", Permission::kSandboxRead,
             [this](E2bExchange& e, const auto& p) { return read_v2(e, parameter(p, "id")); });
}

Task<> LogRoutes::read_v1(E2bExchange& exchange, std::string id) {
  CO_TRY(const auto query, parse_query(exchange.request().query, "start"));
  CO_TRY(const auto sandbox, find_own(parts_, exchange, id));
  Json lines = Json::array();
  Json entries = Json::array();
  for (const SandboxLogLine& line : choose(log_.read(sandbox.id), query)) {
    lines.push(line_json(line));
    entries.push(entry_json(line));
  }
  co_return co_await exchange.respond_json(
      200, Json::object({{"logs", std::move(lines)}, {"logEntries", std::move(entries)}}));
}

Task<> LogRoutes::read_v2(E2bExchange& exchange, std::string id) {
  CO_TRY(const auto query, parse_query(exchange.request().query, "cursor"));
  CO_TRY(const auto sandbox, find_own(parts_, exchange, id));
  Json entries = Json::array();
  for (const SandboxLogLine& line : choose(log_.read(sandbox.id), query)) {
    entries.push(entry_json(line));
  }
  co_return co_await exchange.respond_json(200, Json::object({{"logs", std::move(entries)}}));
}

}  // namespace atl::service::e2b
