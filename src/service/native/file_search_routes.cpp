// files/glob and files/grep: names and lines below a directory, searched by the guest.
//
// An answer is bounded three ways (results, bytes, time) and says when it is not everything. The
// search ends at once when the client goes away. What a regular expression may be is in
// search_pattern.h.
#include "base/strings.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"
#include "service/native/file_routes.h"
#include "service/native/search_pattern.h"

namespace atl::service::native {
namespace {

using control::PlaceRef;

constexpr std::int64_t kDefaultResults = 1000;
constexpr std::int64_t kMaxResults = 10'000;
constexpr std::size_t kMaxAnswerBytes = 4U << 20;
constexpr std::int64_t kDefaultTimeoutMs = 30'000;
constexpr std::int64_t kMaxTimeoutMs = 300'000;

struct Search {
  guest::SearchRequest request;
  std::chrono::milliseconds timeout{kDefaultTimeoutMs};
};

// All values of a parameter that may come several times.
Result<std::vector<std::string>> query_list(std::string_view query, std::string_view name) {
  std::vector<std::string> values;
  for (const std::string_view pair : split(query, '&')) {
    if (!pair.starts_with(concat(name, "="))) {
      continue;
    }
    auto value = http::percent_decode(pair.substr(name.size() + 1), true);
    if (!value) {
      return fail(Code::kInvalidArgument, concat("query parameter \"", name, "\" is malformed"));
    }
    values.push_back(*std::move(value));
  }
  return values;
}

// A query as the JSON body it would be, so that both are read and refused in one place.
Result<Json> query_as_json(std::string_view query) {
  Json json = Json::object();
  for (const std::string_view name : {"path", "user", "pattern"}) {
    if (auto value = http::query_value(query, name)) {
      json.set(name, *std::move(value));
    }
  }
  for (const std::string_view name : {"include", "exclude"}) {
    TRY(auto values, query_list(query, name));
    Json list = Json::array();
    for (std::string& value : values) {
      list.push(std::move(value));
    }
    json.set(name, std::move(list));
  }
  for (const std::string_view name : {"fixed", "ignore_case"}) {
    TRY(const bool value, query_boolean(query, name));
    json.set(name, value);
  }
  for (const std::string_view name : {"context", "max_results", "max_file_bytes", "timeout_ms"}) {
    TRY(const auto value, query_integer(query, name, 0, INT64_MAX));
    if (value) {
      json.set(name, *value);
    }
  }
  return json;
}

// A name alone is meant at any depth, as in .gitignore.
std::vector<std::string> anywhere(std::vector<std::string> globs) {
  for (std::string& glob : globs) {
    if (!glob.contains('/')) {
      glob.insert(0, "**/");
    }
  }
  return globs;
}

Result<Search> parse_common(const Fields& fields, const control::FileDefaults& defaults) {
  Search search;
  TRY(const auto path, fields.string("path"));
  search.request.path = absolute_path(path.value_or("."), defaults);
  TRY(const auto user, fields.string("user"));
  search.request.user = defaults.choose_user(user);
  TRY(auto included, fields.strings("include"));
  search.request.included = anywhere(std::move(included));
  TRY(auto excluded, fields.strings("exclude"));
  search.request.excluded = anywhere(std::move(excluded));
  TRY(const auto ignore_case, fields.boolean("ignore_case"));
  search.request.ignore_case = ignore_case.value_or(false);
  TRY(const auto results, fields.integer("max_results", 1, kMaxResults));
  search.request.max_results = static_cast<std::uint32_t>(results.value_or(kDefaultResults));
  TRY(const auto timeout, fields.integer("timeout_ms", 1, kMaxTimeoutMs));
  search.timeout = std::chrono::milliseconds{timeout.value_or(kDefaultTimeoutMs)};
  return search;
}

Result<Search> parse_glob(const Json& body, const control::FileDefaults& defaults) {
  TRY(const auto fields, Fields::of(body, "",
                                    {"path", "user", "pattern", "include", "exclude", "ignore_case",
                                     "max_results", "timeout_ms", "fixed"}));
  TRY(Search search, parse_common(fields, defaults));
  TRY(search.request.name_glob, fields.required_string("pattern"));
  if (search.request.name_glob.starts_with('/')) {
    search.request.path = "/";
  }
  return search;
}

Result<Search> parse_grep(const Json& body, const control::FileDefaults& defaults) {
  TRY(const auto fields,
      Fields::of(body, "",
                 {"path", "user", "pattern", "fixed", "ignore_case", "include", "exclude",
                  "context", "max_results", "max_file_bytes", "timeout_ms"}));
  TRY(Search search, parse_common(fields, defaults));
  TRY(const auto pattern, fields.required_string("pattern"));
  TRY(const auto fixed, fields.boolean("fixed"));
  TRY(auto translated, fixed.value_or(false) ? quote_text(pattern) : translate_regex(pattern));
  guest::SearchRequest& request = search.request;
  request.content_regex = std::move(translated.regex);
  request.ignore_case = request.ignore_case || translated.ignore_case;
  TRY(const auto context, fields.integer("context", 0, guest::kMaxContextLines));
  request.context_lines = static_cast<std::uint32_t>(context.value_or(0));
  TRY(const auto bytes,
      fields.integer("max_file_bytes", 1, static_cast<std::int64_t>(guest::kMaxSearchFileBytes)));
  request.max_file_bytes = static_cast<std::uint64_t>(bytes.value_or(guest::kMaxSearchFileBytes));
  return search;
}

Json name_json(const guest::Match& match) {
  return Json::object(
      {{"path", match.path}, {"type", file_type_text(match.type)}, {"size", match.size}});
}

Json line_json(const guest::Match& match) {
  Json json =
      Json::object({{"path", match.path}, {"line", match.line_number}, {"text", match.line_text}});
  if (!is_utf8(match.line_text)) {
    json.set("text_base64", base64_encode(match.line_text));
  }
  if (match.context) {
    json.set("context", true);
  }
  return json;
}

// What was found so far; also when it was not everything.
struct Findings {
  std::vector<guest::Match> matches;
  std::size_t bytes = 0;
  bool full = false;
  guest::SearchEnd end;
};

Task<> collect(control::GuestClient client, guest::SearchRequest request, Findings& findings) {
  CO_TRY(const auto reader, co_await client.search(std::move(request)));
  for (;;) {
    CO_TRY(auto match, co_await reader->next());
    if (!match) {
      findings.end = reader->end();
      co_return ok();
    }
    findings.bytes += match->path.size() + match->line_text.size() + sizeof(guest::Match);
    if (findings.bytes > kMaxAnswerBytes) {
      findings.full = true;
      co_return ok();
    }
    findings.matches.push_back(*std::move(match));
  }
}

Task<> answer(NativeExchange& exchange, control::GuestClient client, Search search,
              std::string_view name, Json (*describe)(const guest::Match&)) {
  Findings findings;
  auto searched = co_await while_client_waits(
      exchange, with_deadline(search.timeout,
                              collect(std::move(client), std::move(search.request), findings)));
  const bool timed_out = !searched && searched.error().code == Code::kDeadlineExceeded;
  if (!searched && !timed_out) {
    co_return std::move(searched);
  }
  Json list = Json::array();
  for (const guest::Match& match : findings.matches) {
    list.push(describe(match));
  }
  Json data = Json::object();
  data.set(name, std::move(list));
  data.set("truncated", findings.end.truncated || findings.full || timed_out);
  data.set("timed_out", timed_out);
  data.set("skipped_files", findings.end.skipped_files);
  co_return co_await exchange.respond(data_response(200, std::move(data)));
}

}  // namespace

Task<> FileRoutes::glob(NativeExchange& exchange, PlaceRef place) {
  CO_TRY(const auto body, query_as_json(exchange.request().query));
  CO_TRY(auto search, parse_glob(body, places_.defaults(place)));
  CO_TRY(const auto files, co_await places_.open(std::move(place)));
  CO_TRY(auto client, guest_of(*files));
  co_return co_await answer(exchange, std::move(client), std::move(search), "entries", name_json);
}

Task<> FileRoutes::grep(NativeExchange& exchange, PlaceRef place) {
  Json body;
  if (exchange.request().method == "POST") {
    CO_TRY(body, co_await read_json(exchange.body()));
  } else {
    CO_TRY(body, query_as_json(exchange.request().query));
  }
  CO_TRY(auto search, parse_grep(body, places_.defaults(place)));
  CO_TRY(const auto files, co_await places_.open(std::move(place)));
  CO_TRY(auto client, guest_of(*files));
  co_return co_await answer(exchange, std::move(client), std::move(search), "matches", line_json);
}

}  // namespace atl::service::native
