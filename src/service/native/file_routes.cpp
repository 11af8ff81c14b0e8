// Files: write, stat, list, mkdir, move, chmod, delete. Reading is in file_download.cpp.
//
// Contents pass through in pieces: one buffer per transfer, whatever the size.
#include "service/native/file_routes.h"

#include "base/strings.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"
#include "service/native/file_conditions.h"
#include "service/native/piece_buffer.h"

namespace atl::service::native {
namespace {

using control::PlaceRef;

constexpr std::size_t kListPieceBytes = std::size_t{32} * 1024;
constexpr std::int64_t kMaxListLimit = 100'000;

Result<std::uint32_t> parse_mode(const std::string& text) {
  std::uint32_t mode = 0;
  for (const char c : text) {
    if (c < '0' || c > '7' || (mode = mode * 8 + static_cast<std::uint32_t>(c - '0')) > 07777) {
      return fail(Code::kInvalidArgument,
                  concat("field \"mode\" is \"", text, "\", it must be octal such as \"0755\""));
    }
  }
  return mode;
}

struct Page {
  std::optional<std::int64_t> limit;
  std::int64_t offset = 0;
};

// The envelope by hand, an entry at a time: a listing is as long as the sandbox wants it to be.
// What fails before the first entry is an answer of its own; later the connection breaks off.
// With a limit it is a page: entries come in the order the filesystem has them, which stays the
// same as long as nothing in the directory changes.
Task<> send_entries(NativeExchange& exchange, control::DirectoryReader& reader, Page page) {
  CO_TRY(auto file, co_await reader.next());
  for (std::int64_t skipped = 0; file && skipped < page.offset; ++skipped) {
    CO_TRY(file, co_await reader.next());
  }
  CO_TRY_DO(co_await exchange.start(200, {{"Content-Type", "application/json"}}, std::nullopt));
  std::string text = "{\"success\":true,\"data\":{\"entries\":[";
  for (std::int64_t sent = 0; file && sent < page.limit.value_or(INT64_MAX); ++sent) {
    text += concat(sent == 0 ? "" : ",", file_json(*file).dump());
    if (text.size() >= kListPieceBytes) {
      CO_TRY_DO(co_await exchange.write(text));
      text.clear();
    }
    CO_TRY(file, co_await reader.next());
  }
  text += "]";
  if (page.limit) {
    text += concat(",\"has_more\":", file ? "true" : "false");
  }
  text += "}}";
  CO_TRY_DO(co_await exchange.write(text));
  co_return co_await exchange.finish();
}

// Nothing when there is no such file.
Task<std::optional<guest::FileInfo>> find_file(control::Files& files, std::string path,
                                               std::string user) {
  const auto reader =
      co_await files.read_file({.path = std::move(path), .user = std::move(user), .length = 0});
  if (!reader && reader.error().reason == "file_not_found") {
    co_return std::optional<guest::FileInfo>{};
  }
  if (!reader) {
    co_return fail(reader.error());
  }
  co_return std::optional{(*reader)->info()};
}

Task<> respond_flag(NativeExchange& exchange, int status, std::string_view name) {
  return exchange.respond(data_response(status, Json::object({{std::string{name}, true}})));
}

}  // namespace

void FileRoutes::add_to(RouteTable& table) {
  const std::string_view files = where_.prefix;
  using Method = Task<> (FileRoutes::*)(NativeExchange&, PlaceRef);
  const auto route = [this](Method method) {
    return [this, method](NativeExchange& exchange, const http::PathParameters& p) {
      return (this->*method)(exchange, {exchange.principal().team_id, parameter(p, "id")});
    };
  };
  table.add("GET", files, where_.read, route(&FileRoutes::read));
  table.add("HEAD", files, where_.read, route(&FileRoutes::read));
  table.add("POST", files, where_.write, route(&FileRoutes::write));
  table.add("DELETE", files, where_.write, route(&FileRoutes::remove));
  table.add("GET", concat(files, "/stat"), where_.read, route(&FileRoutes::stat));
  table.add("GET", concat(files, "/list"), where_.read, route(&FileRoutes::list));
  table.add("POST", concat(files, "/move"), where_.write, route(&FileRoutes::move));
  table.add("POST", concat(files, "/chmod"), where_.write, route(&FileRoutes::change_mode));
  table.add("GET", concat(files, "/glob"), where_.read, route(&FileRoutes::glob));
  table.add("GET", concat(files, "/grep"), where_.read, route(&FileRoutes::grep));
  table.add("POST", concat(files, "/grep"), where_.read, route(&FileRoutes::grep));
  if (archives_ != nullptr) {
    const std::string archive = concat(files, "/archive");
    table.add("GET", archive, where_.read, route(&FileRoutes::download_archive));
    table.add("PUT", archive, where_.write, route(&FileRoutes::upload_archive));
    table.add("POST", archive, where_.write, route(&FileRoutes::upload_archive));
  }
  table.add("GET", concat(files, "/watch"), where_.write, route(&FileRoutes::watch));
}

Task<> FileRoutes::write(NativeExchange& exchange, PlaceRef place) {
  const std::string& query = exchange.request().query;
  CO_TRY(auto target, parse_file_target(query, places_.defaults(place)));
  CO_TRY(const bool directory, query_boolean(query, "mkdir"));
  CO_TRY(const bool recursive, query_boolean(query, "recursive"));
  CO_TRY(const auto files, co_await places_.open(std::move(place)));
  if (directory) {
    CO_TRY_DO(co_await files->make_directory(
        {.path = target.path, .user = std::move(target.user), .make_parents = recursive}));
    CO_TRY_DO(co_await files->sync(std::move(target.path), false));
    co_return co_await respond_flag(exchange, 201, "created");
  }
  guest::WriteFileRequest request{.path = target.path, .user = std::move(target.user)};
  const http::Headers& headers = exchange.request().headers;
  if (has_conditions(headers)) {
    CO_TRY(const auto existing, co_await find_file(*files, request.path, request.user));
    const WriteConditions conditions = judge_write(headers, existing);
    if (conditions.verdict == Verdict::kFailed) {
      co_return precondition_failed();
    }
    request.only_new = conditions.only_new;
    request.only_version = conditions.only_version;
  }
  CO_TRY(const auto writer, co_await files->write_file(std::move(request)));
  PieceBuffer buffer{exchange.body().length()};
  for (;;) {
    CO_TRY(const auto got, co_await exchange.body().read(buffer.span()));
    if (got == 0) {
      break;
    }
    CO_TRY_DO(co_await writer->write({buffer.data(), got}));
  }
  CO_TRY(const auto info, co_await writer->finish());
  CO_TRY_DO(co_await files->sync(std::move(target.path), false));
  http::Response response =
      data_response(200, Json::object({{"written", true}, {"size", info.size}}));
  response.headers.set("ETag", etag_of(info));
  response.headers.set("Last-Modified", http_date(info.modified_unix_ns));
  co_return co_await exchange.respond(std::move(response));
}

Task<> FileRoutes::remove(NativeExchange& exchange, PlaceRef place) {
  CO_TRY(auto target, parse_file_target(exchange.request().query, places_.defaults(place)));
  CO_TRY(const auto files, co_await places_.open(std::move(place)));
  CO_TRY_DO(co_await files->remove({.path = target.path, .user = std::move(target.user)}));
  CO_TRY_DO(co_await files->sync(std::move(target.path), false));
  co_return co_await respond_flag(exchange, 200, "deleted");
}

Task<> FileRoutes::stat(NativeExchange& exchange, PlaceRef place) {
  CO_TRY(auto target, parse_file_target(exchange.request().query, places_.defaults(place)));
  CO_TRY(const auto files, co_await places_.open(std::move(place)));
  CO_TRY(auto info,
         co_await files->stat({.path = std::move(target.path), .user = std::move(target.user)}));
  info.path = std::move(target.requested);
  co_return co_await exchange.respond(data_response(200, file_json(info)));
}

Task<> FileRoutes::list(NativeExchange& exchange, PlaceRef place) {
  const std::string& query = exchange.request().query;
  CO_TRY(auto target, parse_file_target(query, places_.defaults(place)));
  Page page;
  CO_TRY(page.limit, query_integer(query, "limit", 1, kMaxListLimit));
  CO_TRY(const auto offset, query_integer(query, "offset", 0, INT64_MAX));
  page.offset = offset.value_or(0);
  CO_TRY(const auto files, co_await places_.open(std::move(place)));
  CO_TRY(const auto reader, co_await files->read_directory(
                                {.path = std::move(target.path), .user = std::move(target.user)}));
  co_return co_await send_entries(exchange, *reader, page);
}

Task<> FileRoutes::move(NativeExchange& exchange, PlaceRef place) {
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"source", "destination", "user"}));
  CO_TRY(const auto source, fields.required_string("source"));
  CO_TRY(const auto destination, fields.required_string("destination"));
  CO_TRY(const auto user, fields.string("user"));
  const control::FileDefaults defaults = places_.defaults(place);
  CO_TRY(const auto files, co_await places_.open(std::move(place)));
  guest::MoveRequest request{.source = absolute_path(source, defaults),
                             .destination = absolute_path(destination, defaults),
                             .user = defaults.choose_user(user)};
  CO_TRY_DO(co_await files->move(request));
  CO_TRY_DO(co_await files->sync(std::move(request.destination), false));
  CO_TRY_DO(co_await files->sync(std::move(request.source), false));
  co_return co_await respond_flag(exchange, 200, "moved");
}

Task<> FileRoutes::change_mode(NativeExchange& exchange, PlaceRef place) {
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"path", "mode", "user"}));
  CO_TRY(const auto path, fields.required_string("path"));
  CO_TRY(const auto text, fields.required_string("mode"));
  CO_TRY(const auto user, fields.string("user"));
  CO_TRY(const auto mode, parse_mode(text));
  const control::FileDefaults defaults = places_.defaults(place);
  CO_TRY(const auto files, co_await places_.open(std::move(place)));
  std::string absolute = absolute_path(path, defaults);
  CO_TRY_DO(co_await files->change_mode(
      {.path = absolute, .user = defaults.choose_user(user), .mode = mode}));
  CO_TRY_DO(co_await files->sync(std::move(absolute), false));
  co_return co_await respond_flag(exchange, 200, "changed");
}

}  // namespace atl::service::native
