// Reading a file: raw (file_answer.h), or as base64 in JSON.
#include "base/strings.h"
#include "service/native/envelope.h"
#include "service/native/file_answer.h"
#include "service/native/file_routes.h"

namespace atl::service::native {
namespace {

using control::FileReader;
using control::PlaceRef;

bool mentions_json(const http::Headers& headers) {
  return to_lower(headers.get("Accept")).find("json") != std::string::npos ||
         to_lower(headers.get("Content-Type")).find("json") != std::string::npos;
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

}  // namespace

Task<> FileRoutes::read(NativeExchange& exchange, PlaceRef place) {
  CO_TRY(auto target, parse_file_target(exchange.request().query, places_.defaults(place)));
  CO_TRY(const auto files, co_await places_.open(std::move(place)));
  if (mentions_json(exchange.request().headers) && exchange.request().method != "HEAD") {
    CO_TRY(const auto reader,
           co_await files->read_file({.path = target.path, .user = std::move(target.user)}));
    co_return co_await send_base64(exchange, *reader);
  }
  const auto refuse = [&exchange](const Error& error) {
    return error_response(error, true, exchange.request_id());
  };
  co_return co_await answer_with_file(exchange, *files,
                                      {.path = std::move(target.path),
                                       .user = std::move(target.user),
                                       .headers = {{"Vary", "Accept"}},
                                       .refuse = refuse});
}

}  // namespace atl::service::native
