// Files: read (raw, range, base64), write, stat, list, mkdir, move, chmod, delete.
//
// Contents pass through in pieces: one buffer per transfer, whatever the size. Paths are the
// guest's business; here a relative one only gets /workspace put in front.
#include <array>

#include "base/strings.h"
#include "guest/wire.h"
#include "service/native/byte_range.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"
#include "service/native/routes.h"

namespace atl::service::native {
namespace {

using control::FileReader;
using control::Permission;
using control::SandboxRef;

constexpr std::size_t kUploadPieceBytes = 128 * 1024;
constexpr std::size_t kListPieceBytes = 32 * 1024;

std::string absolute_path(std::string_view path, const control::TemplateDefaults& defaults) {
  return path.starts_with('/') ? std::string{path}
                               : concat(defaults.cwd == "/" ? "" : defaults.cwd, "/", path);
}

struct Target {
  std::string requested;  // as the caller wrote it
  std::string path;
  std::string user;
};

Result<Target> parse_target(std::string_view query, const control::TemplateDefaults& defaults) {
  auto path = http::query_value(query, "path");
  if (!path || path->empty()) {
    return fail(Code::kInvalidArgument, "query parameter \"path\" is required");
  }
  auto user = http::query_value(query, "user");
  std::string absolute = absolute_path(*path, defaults);
  return Target{*std::move(path), std::move(absolute),
                user && !user->empty() ? *std::move(user) : defaults.user};
}

bool mentions_json(const http::Headers& headers) {
  return to_lower(headers.get("Accept")).find("json") != std::string::npos ||
         to_lower(headers.get("Content-Type")).find("json") != std::string::npos;
}

std::string mode_text(std::uint32_t mode) {
  constexpr std::string_view kDigits = "01234567";
  std::string text = "0";
  if ((mode >> 9U) != 0) {
    text = kDigits[(mode >> 9U) & 7U];
  }
  for (const unsigned shift : {6U, 3U, 0U}) {
    text += kDigits[(mode >> shift) & 7U];
  }
  return text;
}

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

std::string_view type_text(guest::FileType type) {
  switch (type) {
    case guest::FileType::kFile:
      return "file";
    case guest::FileType::kDirectory:
      return "dir";
    case guest::FileType::kSymlink:
      return "symlink";
    case guest::FileType::kHardlink:
    case guest::FileType::kOther:
      return "other";
  }
  return "other";
}

Json file_json(const guest::FileInfo& info) {
  const bool link = info.type == guest::FileType::kSymlink;
  Json json = Json::object({{"name", info.name},
                            {"path", info.path},
                            {"type", type_text(info.type)},
                            {"size", info.size},
                            {"mode", mode_text(info.mode)},
                            {"mod_time", rfc3339(info.modified_unix_ns / 1'000'000)},
                            {"is_link", link},
                            {"uid", info.uid},
                            {"gid", info.gid}});
  if (link) {
    json.set("link_target", info.link_target);
  }
  return json;
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

http::Headers raw_headers() {
  return {{"Content-Type", "application/octet-stream"},
          {"X-Content-Type-Options", "nosniff"},
          {"Accept-Ranges", "bytes"}};
}

Task<> send_raw(NativeExchange& exchange, FileReader& reader) {
  if (reader.info().size > 0) {
    CO_TRY_DO(co_await exchange.start(200, raw_headers(), reader.info().size));
    co_return co_await send_exactly(exchange, reader, reader.info().size);
  }
  // Files of /proc say they are empty and are not.
  CO_TRY(auto bytes, co_await reader.next());
  if (bytes.empty()) {
    CO_TRY_DO(co_await exchange.start(200, raw_headers(), 0));
    co_return co_await exchange.finish();
  }
  CO_TRY_DO(co_await exchange.start(200, raw_headers(), std::nullopt));
  while (!bytes.empty()) {
    CO_TRY_DO(co_await exchange.write(bytes));
    CO_TRY(bytes, co_await reader.next());
  }
  co_return co_await exchange.finish();
}

// Base64 in pieces of whole triples; what is left over waits for the next piece.
Task<> send_base64(NativeExchange& exchange, FileReader& reader) {
  CO_TRY_DO(co_await exchange.start(200, {{"Content-Type", "application/json"}}, std::nullopt));
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

// The envelope by hand, an entry at a time: a listing is as long as the sandbox wants it to be.
// What fails before the first entry is an answer of its own; later the connection breaks off.
Task<> send_entries(NativeExchange& exchange, control::DirectoryReader& reader) {
  CO_TRY(auto file, co_await reader.next());
  CO_TRY_DO(co_await exchange.start(200, {{"Content-Type", "application/json"}}, std::nullopt));
  std::string text = "{\"success\":true,\"data\":{\"entries\":[";
  while (file) {
    text += file_json(*file).dump();
    if (text.size() >= kListPieceBytes) {
      CO_TRY_DO(co_await exchange.write(text));
      text.clear();
    }
    CO_TRY(file, co_await reader.next());
    if (file) {
      text += ',';
    }
  }
  text += "]}}";
  CO_TRY_DO(co_await exchange.write(text));
  co_return co_await exchange.finish();
}

Task<> send_range(NativeExchange& exchange, const control::GuestClient& client, Target target,
                  ByteRange range) {
  // The size is only known once the file is open, and a range from the end needs it.
  std::uint64_t size = 0;
  {
    CO_TRY(const auto probe,
           co_await client.read_file({.path = target.path, .user = target.user, .length = 0}));
    size = probe->info().size;
  }
  auto slice = resolve_range(range, size);
  if (!slice) {
    http::Response response = error_response(slice.error(), true, exchange.request_id());
    response.headers.set("Content-Range", concat("bytes */", size));
    co_return co_await exchange.respond(std::move(response));
  }
  CO_TRY(const auto reader, co_await client.read_file({.path = std::move(target.path),
                                                       .user = std::move(target.user),
                                                       .offset = slice->offset,
                                                       .length = slice->length}));
  http::Headers headers = raw_headers();
  headers.set("Content-Range",
              concat("bytes ", slice->offset, "-", slice->offset + slice->length - 1, "/", size));
  CO_TRY_DO(co_await exchange.start(206, std::move(headers), slice->length));
  co_return co_await send_exactly(exchange, *reader, slice->length);
}

Task<> respond_flag(NativeExchange& exchange, int status, std::string_view name) {
  return exchange.respond(data_response(status, Json::object({{std::string{name}, true}})));
}

}  // namespace

void FileRoutes::add_to(RouteTable& table) {
  constexpr std::string_view kFiles = "/api/v1/sandboxes/{id}/files";
  using Method = Task<> (FileRoutes::*)(NativeExchange&, SandboxRef);
  const auto route = [this](Method method) {
    return [this, method](NativeExchange& exchange, const http::PathParameters& p) {
      return (this->*method)(exchange, sandbox_ref(exchange, p));
    };
  };
  table.add("GET", kFiles, Permission::kSandboxRead, route(&FileRoutes::read));
  table.add("POST", kFiles, Permission::kSandboxWrite, route(&FileRoutes::write));
  table.add("DELETE", kFiles, Permission::kSandboxWrite, route(&FileRoutes::remove));
  table.add("GET", concat(kFiles, "/stat"), Permission::kSandboxRead, route(&FileRoutes::stat));
  table.add("GET", concat(kFiles, "/list"), Permission::kSandboxRead, route(&FileRoutes::list));
  table.add("POST", concat(kFiles, "/move"), Permission::kSandboxWrite, route(&FileRoutes::move));
  table.add("POST", concat(kFiles, "/chmod"), Permission::kSandboxWrite,
            route(&FileRoutes::change_mode));
}

Task<> FileRoutes::read(NativeExchange& exchange, SandboxRef sandbox) {
  CO_TRY(auto target, parse_target(exchange.request().query, contexts_.defaults(sandbox)));
  CO_TRY(const auto client, co_await contexts_.guest(std::move(sandbox)));
  const auto& headers = exchange.request().headers;
  const bool as_json = mentions_json(headers);
  if (const auto range = parse_byte_range(headers.get("Range")); range && !as_json) {
    co_return co_await send_range(exchange, client, std::move(target), *range);
  }
  CO_TRY(const auto reader, co_await client.read_file(
                                {.path = std::move(target.path), .user = std::move(target.user)}));
  if (as_json) {
    co_return co_await send_base64(exchange, *reader);
  }
  co_return co_await send_raw(exchange, *reader);
}

Task<> FileRoutes::write(NativeExchange& exchange, SandboxRef sandbox) {
  const std::string& query = exchange.request().query;
  CO_TRY(auto target, parse_target(query, contexts_.defaults(sandbox)));
  CO_TRY(const bool directory, query_boolean(query, "mkdir"));
  CO_TRY(const bool recursive, query_boolean(query, "recursive"));
  CO_TRY(const auto client, co_await contexts_.guest(std::move(sandbox)));
  if (directory) {
    CO_TRY_DO(co_await client.make_directory({.path = std::move(target.path),
                                              .user = std::move(target.user),
                                              .make_parents = recursive}));
    co_return co_await respond_flag(exchange, 201, "created");
  }
  CO_TRY(const auto writer, co_await client.write_file(
                                {.path = std::move(target.path), .user = std::move(target.user)}));
  std::string buffer(kUploadPieceBytes, '\0');
  for (;;) {
    CO_TRY(const auto got, co_await exchange.body().read(buffer));
    if (got == 0) {
      break;
    }
    CO_TRY_DO(co_await writer->write(std::string_view{buffer}.substr(0, got)));
  }
  CO_TRY(const auto info, co_await writer->finish());
  co_return co_await exchange.respond(
      data_response(200, Json::object({{"written", true}, {"size", info.size}})));
}

Task<> FileRoutes::remove(NativeExchange& exchange, SandboxRef sandbox) {
  CO_TRY(auto target, parse_target(exchange.request().query, contexts_.defaults(sandbox)));
  CO_TRY(const auto client, co_await contexts_.guest(std::move(sandbox)));
  CO_TRY_DO(
      co_await client.remove({.path = std::move(target.path), .user = std::move(target.user)}));
  co_return co_await respond_flag(exchange, 200, "deleted");
}

Task<> FileRoutes::stat(NativeExchange& exchange, SandboxRef sandbox) {
  CO_TRY(auto target, parse_target(exchange.request().query, contexts_.defaults(sandbox)));
  CO_TRY(const auto client, co_await contexts_.guest(std::move(sandbox)));
  CO_TRY(auto info,
         co_await client.stat({.path = std::move(target.path), .user = std::move(target.user)}));
  info.path = std::move(target.requested);
  co_return co_await exchange.respond(data_response(200, file_json(info)));
}

Task<> FileRoutes::list(NativeExchange& exchange, SandboxRef sandbox) {
  CO_TRY(auto target, parse_target(exchange.request().query, contexts_.defaults(sandbox)));
  CO_TRY(const auto client, co_await contexts_.guest(std::move(sandbox)));
  CO_TRY(const auto reader, co_await client.read_directory(
                                {.path = std::move(target.path), .user = std::move(target.user)}));
  co_return co_await send_entries(exchange, *reader);
}

Task<> FileRoutes::move(NativeExchange& exchange, SandboxRef sandbox) {
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"source", "destination", "user"}));
  CO_TRY(const auto source, fields.required_string("source"));
  CO_TRY(const auto destination, fields.required_string("destination"));
  CO_TRY(const auto user, fields.string("user"));
  const control::TemplateDefaults defaults = contexts_.defaults(sandbox);
  CO_TRY(const auto client, co_await contexts_.guest(std::move(sandbox)));
  CO_TRY_DO(co_await client.move({.source = absolute_path(source, defaults),
                                  .destination = absolute_path(destination, defaults),
                                  .user = user.value_or(defaults.user)}));
  co_return co_await respond_flag(exchange, 200, "moved");
}

Task<> FileRoutes::change_mode(NativeExchange& exchange, SandboxRef sandbox) {
  CO_TRY(const auto body, co_await read_json(exchange.body()));
  CO_TRY(const auto fields, Fields::of(body, "", {"path", "mode", "user"}));
  CO_TRY(const auto path, fields.required_string("path"));
  CO_TRY(const auto text, fields.required_string("mode"));
  CO_TRY(const auto user, fields.string("user"));
  CO_TRY(const auto mode, parse_mode(text));
  const control::TemplateDefaults defaults = contexts_.defaults(sandbox);
  CO_TRY(const auto client, co_await contexts_.guest(std::move(sandbox)));
  CO_TRY_DO(co_await client.change_mode(
      {.path = absolute_path(path, defaults), .user = user.value_or(defaults.user), .mode = mode}));
  co_return co_await respond_flag(exchange, 200, "changed");
}

}  // namespace atl::service::native
