#include "service/e2b/volumes/volume_content_routes.h"

#include "base/strings.h"
#include "service/e2b/lenient_fields.h"
#include "service/e2b/volumes/volume_token.h"
#include "service/native/envelope.h"

namespace atl::service::e2b {
namespace {

constexpr std::size_t kUploadPieceBytes = guest::kMaxPayloadBytes;
constexpr std::size_t kListPieceBytes = std::size_t{32} * 1024;
constexpr std::int64_t kMaxDepth = 64;
constexpr std::int64_t kMaxMode = 07777;

std::string_view type_name(guest::FileType type) {
  switch (type) {
    case guest::FileType::kFile:
      return "file";
    case guest::FileType::kDirectory:
      return "directory";
    case guest::FileType::kSymlink:
      return "symlink";
    default:
      return "unknown";
  }
}

// Nobody keeps when a file was read last: that is told as the time of its last change.
Json entry_json(const guest::FileInfo& info) {
  constexpr std::int64_t kMs = 1'000'000;
  const std::string modified = native::rfc3339(info.modified_unix_ns / kMs);
  Json json = Json::object({{"name", to_valid_utf8(info.name)},
                            {"type", type_name(info.type)},
                            {"path", to_valid_utf8(info.path)},
                            {"size", info.size},
                            {"mode", info.mode},
                            {"uid", info.uid},
                            {"gid", info.gid},
                            {"atime", modified},
                            {"mtime", modified},
                            {"ctime", native::rfc3339(info.changed_unix_ns / kMs)}});
  if (info.type == guest::FileType::kSymlink) {
    json.set("target", to_valid_utf8(info.link_target));
  }
  return json;
}

std::uint32_t given(const std::optional<std::int64_t>& number) {
  return number ? static_cast<std::uint32_t>(*number) : UINT32_MAX;
}

struct Owner {
  std::optional<std::int64_t> uid;
  std::optional<std::int64_t> gid;
  std::optional<std::int64_t> mode;
  bool says_something() const { return uid || gid || mode; }
};

Result<Owner> read_owner(std::string_view query) {
  Owner owner;
  TRY(owner.uid, query_integer(query, "uid", 0, UINT32_MAX - 1));
  TRY(owner.gid, query_integer(query, "gid", 0, UINT32_MAX - 1));
  TRY(owner.mode, query_integer(query, "mode", 0, kMaxMode));
  return owner;
}

// What the entry is like in the end, durably.
Task<> settle(E2bExchange& exchange, control::Files& files, std::string path, std::string user,
              Owner owner, int status) {
  if (owner.says_something()) {
    CO_TRY_DO(co_await files.change_mode({.path = path,
                                          .user = user,
                                          .mode = given(owner.mode),
                                          .uid = given(owner.uid),
                                          .gid = given(owner.gid)}));
  }
  CO_TRY_DO(co_await files.sync(path, false));
  CO_TRY(const auto info, co_await files.stat({.path = std::move(path), .user = std::move(user)}));
  co_return co_await exchange.respond_json(status, entry_json(info));
}

// An entry at a time: how long the list is, the volume decides.
Task<> send_entries(E2bExchange& exchange, control::DirectoryReader& reader) {
  CO_TRY(auto entry, co_await reader.next());
  CO_TRY_DO(co_await exchange.start(200, {{"Content-Type", "application/json"}}, std::nullopt));
  std::string text = "[";
  for (bool first = true; entry; first = false) {
    text += concat(first ? "" : ",", entry_json(*entry).dump());
    if (text.size() >= kListPieceBytes) {
      CO_TRY_DO(co_await exchange.write(text));
      text.clear();
    }
    CO_TRY(entry, co_await reader.next());
  }
  text += "]";
  CO_TRY_DO(co_await exchange.write(text));
  co_return co_await exchange.finish();
}

}  // namespace

void VolumeContentRoutes::add_to(E2bRoutes& routes) {
  using Method = Task<> (VolumeContentRoutes::*)(E2bExchange&, std::string);
  const auto add = [&](std::string_view verb, std::string_view what, Method method) {
    routes.add_public(verb, concat("/volumecontent/{id}/", what),
                      [this, method](E2bExchange& exchange, const http::PathParameters& p) {
                        return (this->*method)(exchange, parameter(p, "id"));
                      });
  };
  add("GET", "dir", &VolumeContentRoutes::list);
  add("POST", "dir", &VolumeContentRoutes::make_directory);
  add("GET", "path", &VolumeContentRoutes::stat);
  add("PATCH", "path", &VolumeContentRoutes::update);
  add("DELETE", "path", &VolumeContentRoutes::remove);
  add("GET", "file", &VolumeContentRoutes::read);
  add("PUT", "file", &VolumeContentRoutes::write);
}

Result<VolumeContentRoutes::Place> VolumeContentRoutes::find_place(
    const E2bExchange& exchange, const std::string& volume_id) const {
  const http::Request& request = exchange.request();
  constexpr std::string_view kScheme = "bearer ";
  const auto authorization = request.headers.get("Authorization");
  const auto token = equals_ignore_case(authorization.substr(0, kScheme.size()), kScheme)
                         ? trim(authorization.substr(kScheme.size()))
                         : std::string_view{};
  const auto team_id = team_of_token(parts_.tokens, token, volume_id, parts_.clock.now());
  if (!team_id) {
    return fail(Code::kUnauthenticated, "the volume's token is needed, as Authorization: Bearer");
  }
  const auto path = http::query_value(request.query, "path");
  if (!path || path->empty() || path->size() >= guest::kMaxPathBytes || path->contains('\0')) {
    return fail(Code::kInvalidArgument, "the query needs a path");
  }
  Place place{.ref = {*team_id, volume_id},
              .user = {},
              .path = path->starts_with('/') ? *path : concat("/", *path)};
  place.user = volumes_.defaults(place.ref).user;
  return place;
}

Task<> VolumeContentRoutes::list(E2bExchange& exchange, std::string id) {
  CO_TRY(auto place, find_place(exchange, id));
  CO_TRY(const auto depth, query_integer(exchange.request().query, "depth", 1, kMaxDepth));
  CO_TRY(const auto files, co_await volumes_.open(place.ref));
  CO_TRY(const auto reader,
         co_await files->read_directory({.path = place.path,
                                         .user = place.user,
                                         .depth = static_cast<std::uint32_t>(depth.value_or(1))}));
  co_return co_await send_entries(exchange, *reader);
}

Task<> VolumeContentRoutes::make_directory(E2bExchange& exchange, std::string id) {
  CO_TRY(auto place, find_place(exchange, id));
  const std::string& query = exchange.request().query;
  CO_TRY(const auto owner, read_owner(query));
  CO_TRY(const bool force, native::query_boolean(query, "force"));
  CO_TRY(const auto files, co_await volumes_.open(place.ref));
  CO_TRY_DO(co_await files->make_directory(
      {.path = place.path, .user = place.user, .make_parents = force}));
  co_return co_await settle(exchange, *files, place.path, place.user, owner, 201);
}

Task<> VolumeContentRoutes::stat(E2bExchange& exchange, std::string id) {
  CO_TRY(auto place, find_place(exchange, id));
  CO_TRY(const auto files, co_await volumes_.open(place.ref));
  CO_TRY(const auto info, co_await files->stat({.path = place.path, .user = place.user}));
  co_return co_await exchange.respond_json(200, entry_json(info));
}

Task<> VolumeContentRoutes::update(E2bExchange& exchange, std::string id) {
  CO_TRY(auto place, find_place(exchange, id));
  CO_TRY(const Json body, co_await read_body(exchange.body()));
  CO_TRY(const auto fields, LenientFields::of(body, "", {"uid", "gid", "mode"}));
  Owner owner;
  CO_TRY(owner.uid, fields->integer("uid", 0, UINT32_MAX - 1));
  CO_TRY(owner.gid, fields->integer("gid", 0, UINT32_MAX - 1));
  CO_TRY(owner.mode, fields->integer("mode", 0, kMaxMode));
  CO_TRY(const auto files, co_await volumes_.open(place.ref));
  co_return co_await settle(exchange, *files, place.path, place.user, owner, 200);
}

Task<> VolumeContentRoutes::remove(E2bExchange& exchange, std::string id) {
  CO_TRY(auto place, find_place(exchange, id));
  CO_TRY(const auto files, co_await volumes_.open(place.ref));
  CO_TRY_DO(co_await files->remove({.path = place.path, .user = place.user, .missing_ok = false}));
  CO_TRY_DO(co_await files->sync(place.path, false));
  co_return co_await exchange.respond_empty(204);
}

Task<> VolumeContentRoutes::read(E2bExchange& exchange, std::string id) {
  CO_TRY(auto place, find_place(exchange, id));
  CO_TRY(const auto files, co_await volumes_.open(place.ref));
  CO_TRY(const auto reader, co_await files->read_file({.path = place.path, .user = place.user}));
  // Without a length: the file may grow or shrink while it is read.
  CO_TRY_DO(
      co_await exchange.start(200, {{"Content-Type", "application/octet-stream"}}, std::nullopt));
  for (;;) {
    CO_TRY(const auto piece, co_await reader->next());
    if (piece.empty()) {
      co_return co_await exchange.finish();
    }
    CO_TRY_DO(co_await exchange.write(piece));
  }
}

Task<> VolumeContentRoutes::write(E2bExchange& exchange, std::string id) {
  CO_TRY(auto place, find_place(exchange, id));
  CO_TRY(const auto owner, read_owner(exchange.request().query));
  CO_TRY(const auto files, co_await volumes_.open(place.ref));
  CO_TRY(const auto writer, co_await files->write_file({.path = place.path, .user = place.user}));
  std::string buffer(kUploadPieceBytes, '\0');
  for (;;) {
    CO_TRY(const auto got, co_await exchange.body().read(buffer));
    if (got == 0) {
      break;
    }
    CO_TRY_DO(co_await writer->write(std::string_view{buffer}.substr(0, got)));
  }
  CO_TRY_DO(co_await writer->finish());
  co_return co_await settle(exchange, *files, place.path, place.user, owner, 201);
}

}  // namespace atl::service::e2b
