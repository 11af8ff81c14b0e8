// files/archive: a tree as a tar that streams, and a tar that streams into it.
//
// A download that fails in the middle breaks the connection off: half an archive must not look like
// a whole one. An upload that fails says at which entry; what was written before stays.
#include "base/strings.h"
#include "service/native/envelope.h"
#include "service/native/file_routes.h"

namespace atl::service::native {
namespace {

using control::PlaceRef;
using oci::ArchiveFormat;

// Empty: absent.
Result<std::optional<ArchiveFormat>> parse_format(std::string_view query) {
  const auto format = http::query_value(query, "format");
  if (!format || format->empty()) {
    return std::nullopt;
  }
  if (*format == "tar") {
    return ArchiveFormat::kTar;
  }
  if (*format == "tar.gz" || *format == "tgz") {
    return ArchiveFormat::kTarGzip;
  }
  return fail(Code::kInvalidArgument, "query parameter \"format\" must be \"tar\" or \"tar.gz\"");
}

// "/a/my dir" -> my_dir.tar: the name is only a proposal, and a header takes only plain characters.
std::string file_name(std::string_view path, ArchiveFormat format) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  std::string name;
  for (const char c : path.substr(path.rfind('/') + 1)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_';
    name += plain ? c : '_';
  }
  return concat(name.empty() ? "root" : name, format == ArchiveFormat::kTar ? ".tar" : ".tar.gz");
}

}  // namespace

Task<> FileRoutes::download_archive(NativeExchange& exchange, PlaceRef place) {
  const std::string& query = exchange.request().query;
  CO_TRY(auto target, parse_file_target(query, places_.defaults(place)));
  CO_TRY(const auto asked, parse_format(query));
  const ArchiveFormat format = asked.value_or(ArchiveFormat::kTar);
  CO_TRY(const auto files, co_await places_.open(std::move(place)));
  guest::PathRequest request{target.path, std::move(target.user)};
  auto opening = files->guest() != nullptr
                     ? archives_->download(*files->guest(), std::move(request), format)
                     : archives_->download(*files, std::move(request), format);
  CO_TRY(const auto download, co_await std::move(opening));
  // What cannot be read at all is an answer of its own.
  CO_TRY(std::string bytes, co_await download->next());
  CO_TRY_DO(co_await exchange.start(
      200,
      {{"Content-Type", format == ArchiveFormat::kTar ? "application/x-tar" : "application/gzip"},
       {"X-Content-Type-Options", "nosniff"},
       {"Content-Disposition",
        concat("attachment; filename=\"", file_name(target.path, format), "\"")}},
      std::nullopt));
  while (!bytes.empty()) {
    CO_TRY_DO(co_await exchange.write(bytes));
    CO_TRY(bytes, co_await download->next());
  }
  co_return co_await exchange.finish();
}

Task<> FileRoutes::upload_archive(NativeExchange& exchange, PlaceRef place) {
  const std::string& query = exchange.request().query;
  CO_TRY(auto target, parse_file_target(query, places_.defaults(place)));
  CO_TRY_DO(parse_format(query));  // what it is, is told by its first bytes
  CO_TRY(const auto room_bytes, places_.room_bytes(place));
  CO_TRY(const auto files, co_await places_.open(std::move(place)));
  http::Body& body = exchange.body();
  const auto read = [&body](std::span<char> buffer) { return body.read(buffer); };
  control::UnpackRequest request{
      .path = target.path, .user = std::move(target.user), .max_bytes = room_bytes};
  auto unpacking = files->guest() != nullptr
                       ? archives_->unpack(*files->guest(), std::move(request), read)
                       : archives_->unpack(*files, std::move(request), read);
  CO_TRY(const auto unpacked, co_await std::move(unpacking));
  CO_TRY_DO(co_await files->sync(std::move(target.path), true));
  co_return co_await exchange.respond(
      data_response(200, Json::object({{"files", unpacked.done.files},
                                       {"directories", unpacked.done.directories},
                                       {"symlinks", unpacked.done.symlinks},
                                       {"bytes", unpacked.done.bytes},
                                       {"skipped", unpacked.skipped}})));
}

}  // namespace atl::service::native
