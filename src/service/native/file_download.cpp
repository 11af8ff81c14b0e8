// Reading a file: raw, a range, as base64 in JSON, or only its head; all of it conditional.
//
// Contents pass through in pieces: one buffer per transfer, whatever the size. What is decided from
// a first look (conditions, where a range lies) is checked against the file that is then sent.
#include "base/strings.h"
#include "service/native/byte_range.h"
#include "service/native/envelope.h"
#include "service/native/file_conditions.h"
#include "service/native/file_routes.h"

namespace atl::service::native {
namespace {

using control::FileReader;
using control::PlaceRef;

constexpr int kMaxLooks = 3;

bool mentions_json(const http::Headers& headers) {
  return to_lower(headers.get("Accept")).find("json") != std::string::npos ||
         to_lower(headers.get("Content-Type")).find("json") != std::string::npos;
}

// The validators, and what keeps a browser from taking a file for a page of ours.
http::Headers file_headers(const guest::FileInfo& info, std::string_view path) {
  return {{"Content-Type", std::string{content_type_of(path)}},
          {"X-Content-Type-Options", "nosniff"},
          {"Content-Security-Policy", "sandbox"},
          {"Accept-Ranges", "bytes"},
          {"ETag", etag_of(info)},
          {"Last-Modified", http_date(info.modified_unix_ns)},
          {"Cache-Control", "private, no-cache"},
          {"Vary", "Accept"}};
}

// A file that has content and says it has none, as in /proc: no validator means anything.
http::Headers endless_headers() {
  return {{"Content-Type", "application/octet-stream"}, {"X-Content-Type-Options", "nosniff"}};
}

// Sends exactly `length` bytes, or fails: a file that shrank must not look complete.
Task<> send_exactly(NativeExchange& exchange, FileReader& reader, std::uint64_t length) {
  while (length > 0) {
    CO_TRY(auto bytes, co_await reader.next());
    if (bytes.empty()) {
      co_return fail(Code::kDataLoss, "the file became shorter while it was read");
    }
    bytes =
        bytes.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), length)));
    CO_TRY_DO(co_await exchange.write(bytes));
    length -= bytes.size();
  }
  co_return co_await exchange.finish();
}

Task<> send_raw(NativeExchange& exchange, FileReader& reader, std::string path) {
  const guest::FileInfo& info = reader.info();
  if (info.size > 0) {
    CO_TRY_DO(co_await exchange.start(200, file_headers(info, path), info.size));
    co_return co_await send_exactly(exchange, reader, info.size);
  }
  CO_TRY(auto bytes, co_await reader.next());
  if (bytes.empty()) {
    CO_TRY_DO(co_await exchange.start(200, file_headers(info, path), 0));
    co_return co_await exchange.finish();
  }
  CO_TRY_DO(co_await exchange.start(200, endless_headers(), std::nullopt));
  while (!bytes.empty()) {
    CO_TRY_DO(co_await exchange.write(bytes));
    CO_TRY(bytes, co_await reader.next());
  }
  co_return co_await exchange.finish();
}

// Base64 in pieces of whole triples; what is left over waits for the next piece.
Task<> send_base64(NativeExchange& exchange, FileReader& reader) {
  CO_TRY_DO(co_await exchange.start(200, {{"Content-Type", "application/json"}, {"Vary", "Accept"}},
                                    std::nullopt));
  std::string text = "{\"success\":true,\"data\":{\"encoding\":\"base64\",\"content\":\"";
  std::string carry;
  for (;;) {
    CO_TRY(const auto bytes, co_await reader.next());
    carry += bytes;
    const std::size_t whole = bytes.empty() ? carry.size() : carry.size() / 3 * 3;
    text += base64_encode(std::string_view{carry}.substr(0, whole));
    carry.erase(0, whole);
    if (bytes.empty()) {
      text += "\"}}";
    }
    CO_TRY_DO(co_await exchange.write(text));
    if (bytes.empty()) {
      co_return co_await exchange.finish();
    }
    text.clear();
  }
}

Task<> send_not_modified(NativeExchange& exchange, guest::FileInfo info, std::string path) {
  http::Response response{.status = 304, .headers = file_headers(info, path), .body = {}};
  co_return co_await exchange.respond(std::move(response));
}

Task<> send_head(NativeExchange& exchange, FileReader& reader, std::string path) {
  const guest::FileInfo& info = reader.info();
  bool endless = false;
  if (info.size == 0) {
    CO_TRY(const auto bytes, co_await reader.next());
    endless = !bytes.empty();
  }
  CO_TRY_DO(co_await exchange.start(200, endless ? endless_headers() : file_headers(info, path),
                                    endless ? std::nullopt : std::optional{info.size}));
  co_return co_await exchange.finish();
}

Task<> refuse_range(NativeExchange& exchange, Error error, std::uint64_t size) {
  http::Response response = error_response(error, true, exchange.request_id());
  response.headers.set("Content-Range", concat("bytes */", size));
  co_return co_await exchange.respond(std::move(response));
}

// False: the file is another one than `seen` by now, and nothing was answered.
Task<bool> send_range(NativeExchange& exchange, control::Files& files, FileTarget target,
                      Slice slice, guest::FileInfo seen) {
  CO_TRY(const auto reader, co_await files.read_file({.path = target.path,
                                                      .user = std::move(target.user),
                                                      .offset = slice.offset,
                                                      .length = slice.length}));
  if (etag_of(reader->info()) != etag_of(seen)) {
    co_return false;
  }
  http::Headers headers = file_headers(seen, target.path);
  headers.set("Content-Range",
              concat("bytes ", slice.offset, "-", slice.offset + slice.length - 1, "/", seen.size));
  CO_TRY_DO(co_await exchange.start(206, std::move(headers), slice.length));
  CO_TRY_DO(co_await send_exactly(exchange, *reader, slice.length));
  co_return true;
}

// One look at the file, and the answer that follows from it. False: look again.
Task<bool> answer_after_look(NativeExchange& exchange, control::Files& files, FileTarget target) {
  const http::Headers& asked = exchange.request().headers;
  const bool head = exchange.request().method == "HEAD";
  CO_TRY(auto look,
         co_await files.read_file({.path = target.path, .user = target.user, .length = 1}));
  const guest::FileInfo info = look->info();
  const Verdict verdict = judge_read(asked, info);
  if (verdict == Verdict::kFailed) {
    co_return precondition_failed();
  }
  if (verdict == Verdict::kNotModified) {
    CO_TRY_DO(co_await send_not_modified(exchange, info, std::move(target.path)));
    co_return true;
  }
  if (head) {
    CO_TRY_DO(co_await send_head(exchange, *look, std::move(target.path)));
    co_return true;
  }
  look.reset();
  const auto range = parse_byte_range(asked.get("Range"));
  if (range && range_counts(asked, info)) {
    auto slice = resolve_range(*range, info.size);
    if (!slice) {
      CO_TRY_DO(co_await refuse_range(exchange, std::move(slice).error(), info.size));
      co_return true;
    }
    co_return co_await send_range(exchange, files, std::move(target), *slice, info);
  }
  CO_TRY(const auto reader, co_await files.read_file({.path = target.path, .user = target.user}));
  if (etag_of(reader->info()) != etag_of(info)) {
    co_return false;
  }
  CO_TRY_DO(co_await send_raw(exchange, *reader, std::move(target.path)));
  co_return true;
}

}  // namespace

Task<> FileRoutes::read(NativeExchange& exchange, PlaceRef place) {
  CO_TRY(auto target, parse_file_target(exchange.request().query, places_.defaults(place)));
  CO_TRY(const auto files, co_await places_.open(std::move(place)));
  const auto& headers = exchange.request().headers;
  const bool head = exchange.request().method == "HEAD";
  const bool as_json = mentions_json(headers) && !head;
  if (as_json || (!head && !headers.has("Range") && !has_conditions(headers))) {
    CO_TRY(const auto reader,
           co_await files->read_file({.path = target.path, .user = std::move(target.user)}));
    if (as_json) {
      co_return co_await send_base64(exchange, *reader);
    }
    co_return co_await send_raw(exchange, *reader, std::move(target.path));
  }
  for (int look = 0; look < kMaxLooks; ++look) {
    CO_TRY(const bool answered, co_await answer_after_look(exchange, *files, target));
    if (answered) {
      co_return ok();
    }
  }
  co_return fail(Code::kAborted, "the file changes faster than it can be read");
}

}  // namespace atl::service::native
