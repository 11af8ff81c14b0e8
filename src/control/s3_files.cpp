#include "control/s3_files.h"

#include <algorithm>
#include <cerrno>

#include "base/bytes.h"
#include "base/random.h"
#include "base/strings.h"
#include "control/limits.h"
#include "s3/limits.h"

namespace atl::control {
namespace {

std::unexpected<Error> not_found(std::string_view path) {
  return fail(Code::kNotFound, concat(path, " does not exist"), "file_not_found");
}

std::unexpected<Error> is_a_directory(std::string_view path) {
  return fail(code_from_errno(EISDIR), concat(path, " is a directory"), "path_not_file");
}

std::unexpected<Error> not_possible(std::string_view what) {
  return fail(Code::kUnimplemented, concat("volumes in buckets have no ", what),
              "unsupported_backend");
}

std::string_view without_slash(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  return path;
}

std::string last_part(std::string_view path) {
  path = without_slash(path);
  return std::string{path == "/" ? path : path.substr(path.rfind('/') + 1)};
}

bool is_missing(const Error& error) {
  return error.code == Code::kNotFound && error.reason != "NoSuchBucket";
}

}  // namespace

std::uint64_t s3_version(std::string_view etag) {
  return ByteReader{sha256(etag)}.u64() | 1U;
}

guest::FileInfo s3_file_info(const S3Place& place, std::string path, const s3::ObjectInfo& object) {
  guest::FileInfo info;
  info.name = last_part(path);
  info.path = std::move(path);
  info.size = object.size;
  info.mode = 0644;
  info.uid = place.uid;
  info.gid = place.gid;
  // A listing knows the time more exactly than a head: whole seconds are told by both.
  info.modified_unix_ns = object.modified / 1000 * 1'000'000'000;
  info.inode = s3_version(object.etag);
  return info;
}

guest::FileInfo s3_directory_info(const S3Place& place, std::string path) {
  guest::FileInfo info;
  info.name = last_part(path);
  info.path = std::move(path);
  info.type = guest::FileType::kDirectory;
  info.mode = 0755;
  info.uid = place.uid;
  info.gid = place.gid;
  info.modified_unix_ns = place.created_at * 1'000'000;
  return info;
}

Result<std::string> s3_key(const S3Place& place, std::string_view path) {
  if (!path.starts_with('/') || path.contains('\0') || !is_utf8(path)) {
    return fail(Code::kInvalidArgument, "a path in a bucket is absolute and UTF-8");
  }
  std::string key = place.prefix;
  for (const auto part : split(path.substr(1), '/')) {
    if (part == "." || part == "..") {
      return fail(Code::kInvalidArgument, "a path in a bucket has no \".\" and no \"..\"");
    }
    if (!part.empty()) {
      key += concat(key.empty() || key.ends_with('/') ? "" : "/", part);
    }
  }
  if (key.size() >= s3::kMaxKeyBytes) {
    return fail(code_from_errno(ENAMETOOLONG),
                concat("the path is too long for a bucket, which has names of ", s3::kMaxKeyBytes,
                       " bytes"),
                "path_too_long");
  }
  return key;
}

// A key that is the prefix is the root.
Task<bool> S3Files::is_directory(std::string key) {
  if (key == place_.prefix) {
    co_return true;
  }
  CO_TRY(const auto listing,
         co_await place_.bucket->list({.prefix = concat(key, "/"), .max_keys = 1}));
  co_return !listing.objects.empty();
}

Task<s3::ObjectInfo> S3Files::head_file(std::string key, std::string path) {
  if (key == place_.prefix || path.ends_with('/')) {
    co_return is_a_directory(path);
  }
  auto object = co_await place_.bucket->head(key);
  if (object || !is_missing(object.error())) {
    co_return std::move(object);
  }
  CO_TRY(const bool directory, co_await is_directory(key));
  if (directory) {
    co_return is_a_directory(path);
  }
  co_return not_found(path);
}

Task<guest::FileInfo> S3Files::stat(guest::PathRequest request) {
  CO_TRY(const std::string key, s3_key(place_, request.path));
  auto object = co_await head_file(key, request.path);
  if (object) {
    co_return s3_file_info(place_, std::move(request.path), *object);
  }
  if (object.error().reason != "path_not_file") {
    co_return fail(std::move(object).error());
  }
  CO_TRY(const bool directory, co_await is_directory(key));
  if (!directory) {
    co_return not_found(request.path);
  }
  co_return s3_directory_info(place_, std::move(request.path));
}

Task<std::unique_ptr<DirectoryReader>> S3Files::read_directory(guest::PathRequest request) {
  CO_TRY(const std::string key, s3_key(place_, request.path));
  std::string prefix = key == place_.prefix ? key : concat(key, "/");
  CO_TRY(auto first, co_await place_.bucket->list({.prefix = prefix, .by_directory = true}));
  if (first.objects.empty() && first.prefixes.empty() && key != place_.prefix) {
    CO_TRY_DO(co_await head_file(key, std::string{without_slash(request.path)}));
    co_return fail(code_from_errno(ENOTDIR), concat(request.path, " is not a directory"),
                   "path_not_directory");
  }
  co_return make_s3_directory(place_, std::string{without_slash(request.path)}, std::move(prefix),
                              std::move(first));
}

Task<std::unique_ptr<FileReader>> S3Files::read_file(guest::ReadFileRequest request) {
  CO_TRY(const std::string key, s3_key(place_, request.path));
  const bool whole = request.offset == 0 && request.length == UINT64_MAX;
  if (!whole || key == place_.prefix || request.path.ends_with('/')) {
    CO_TRY(auto object, co_await head_file(key, request.path));
    auto info = s3_file_info(place_, std::move(request.path), object);
    co_return make_s3_range_reader(place_, std::move(info), std::move(object), request.offset,
                                   request.length);
  }
  auto reader = co_await place_.bucket->get(key, {});
  if (!reader && is_missing(reader.error())) {
    CO_TRY_DO(co_await head_file(key, request.path));  // says what is there instead
  }
  if (!reader) {
    co_return fail(std::move(reader).error());
  }
  auto info = s3_file_info(place_, std::move(request.path), (*reader)->info());
  co_return make_s3_reader(place_, std::move(info), *std::move(reader));
}

Task<s3::PutOptions> S3Files::conditions(std::string key, guest::WriteFileRequest request) {
  s3::PutOptions options{.only_new = request.only_new, .if_match = {}};
  if (request.only_version) {
    auto object = co_await place_.bucket->head(key);
    if (!object && !is_missing(object.error())) {
      co_return fail(std::move(object).error());
    }
    if (!object || s3_version(object->etag) != request.only_version->inode) {
      co_return fail(Code::kFailedPrecondition,
                     concat(request.path, " is not the expected version"), "precondition_failed");
    }
    options.if_match = object->etag;
  }
  co_return std::move(options);
}

Task<std::unique_ptr<FileWriter>> S3Files::write_file(guest::WriteFileRequest request) {
  CO_TRY(const std::string key, s3_key(place_, request.path));
  if (key == place_.prefix || request.path.ends_with('/')) {
    co_return is_a_directory(request.path);
  }
  CO_TRY(const bool directory, co_await is_directory(key));
  if (directory) {
    co_return is_a_directory(request.path);
  }
  CO_TRY(auto options, co_await conditions(key, request));
  CO_TRY(auto writer, place_.bucket->put(key, std::move(options)));
  co_return make_s3_writer(place_, std::move(request.path), std::move(writer));
}

Task<> S3Files::make_directory(guest::MakeDirectoryRequest request) {
  CO_TRY(const std::string key, s3_key(place_, request.path));
  auto file = co_await head_file(key, std::string{without_slash(request.path)});
  if (!file && file.error().reason != "file_not_found" && file.error().reason != "path_not_file") {
    co_return fail(std::move(file).error());
  }
  if (file || (file.error().reason == "path_not_file" && !request.make_parents)) {
    co_return fail(Code::kAlreadyExists, concat(request.path, " already exists"), "path_exists");
  }
  if (file.error().reason == "path_not_file") {
    co_return ok();
  }
  const auto slash = key.rfind('/');
  if (!request.make_parents && slash != key.npos && slash >= place_.prefix.size()) {
    CO_TRY(const bool parent, co_await is_directory(key.substr(0, slash)));
    if (!parent) {
      co_return not_found(request.path);
    }
  }
  CO_TRY_DO(co_await place_.bucket->put_bytes(concat(key, "/"), {}));
  co_return ok();
}

// A directory whose last file goes stays, empty.
Task<> S3Files::keep_parent(std::string key) {
  const auto slash = key.rfind('/');
  if (slash == key.npos || slash < place_.prefix.size()) {
    co_return ok();
  }
  CO_TRY(const bool there, co_await is_directory(key.substr(0, slash)));
  if (!there) {
    CO_TRY_DO(co_await place_.bucket->put_bytes(key.substr(0, slash + 1), {}));
  }
  co_return ok();
}

Task<> S3Files::move(guest::MoveRequest request) {
  CO_TRY(const std::string from, s3_key(place_, request.source));
  CO_TRY(const std::string to, s3_key(place_, request.destination));
  auto object = co_await head_file(from, request.source);
  if (!object && object.error().reason == "path_not_file") {
    co_return fail(Code::kUnimplemented,
                   "a directory in a bucket cannot be moved: move its files one by one",
                   "unsupported_backend");
  }
  CO_TRY_DO(object);
  if (object->size > s3::kMaxCopyBytes) {
    co_return fail(Code::kUnimplemented,
                   concat("a file in a bucket can be moved up to ", s3::kMaxCopyBytes, " bytes"),
                   "unsupported_backend");
  }
  if (from == to) {
    co_return ok();
  }
  CO_TRY(const bool occupied, co_await is_directory(to));
  if (occupied || request.destination.ends_with('/')) {
    co_return is_a_directory(request.destination);
  }
  CO_TRY_DO(co_await place_.bucket->copy(from, to));
  CO_TRY_DO(co_await place_.bucket->remove(from));
  co_return co_await keep_parent(from);
}

// Everything below the key; false when there was nothing.
Task<bool> S3Files::remove_below(std::string key, bool recursive) {
  std::string last;  // a server that says it deleted and did not must not keep us for ever
  for (std::size_t page = 0; page < kMaxBucketPages; ++page) {
    CO_TRY(const auto listing, co_await place_.bucket->list({.prefix = concat(key, "/")}));
    if (listing.objects.empty()) {
      co_return !last.empty();
    }
    const bool only_marker =
        listing.objects.size() == 1 && listing.objects.front().key.size() == key.size() + 1;
    if (!recursive && !only_marker) {
      co_return fail(Code::kFailedPrecondition, "the directory is not empty",
                     "directory_not_empty");
    }
    std::vector<std::string> keys;
    keys.reserve(listing.objects.size());
    for (const auto& object : listing.objects) {
      keys.push_back(object.key);
    }
    if (keys.back() == last) {
      co_return fail(Code::kUnavailable, "the bucket's server does not delete objects");
    }
    last = keys.back();
    CO_TRY_DO(co_await place_.bucket->remove_all(std::move(keys)));
  }
  co_return fail(Code::kResourceExhausted,
                 "there is more in this directory than is deleted at once; delete it again");
}

Task<> S3Files::remove(guest::RemoveRequest request) {
  CO_TRY(const std::string key, s3_key(place_, request.path));
  if (key == place_.prefix) {
    co_return fail(Code::kInvalidArgument, "the root of a volume cannot be deleted");
  }
  CO_TRY(bool found, co_await remove_below(key, request.recursive));
  if (!request.path.ends_with('/')) {
    auto file = co_await place_.bucket->head(key);
    if (!file && !is_missing(file.error())) {
      co_return fail(std::move(file).error());
    }
    if (file) {
      found = true;
      CO_TRY_DO(co_await place_.bucket->remove(key));
    }
  }
  if (found && place_.changed) {
    place_.changed();
  }
  if (!found) {
    co_return request.missing_ok ? Result<>{} : not_found(request.path);
  }
  co_return co_await keep_parent(key);
}

Task<> S3Files::change_mode(guest::ChangeModeRequest) {
  co_return not_possible("modes: every file is 0644");
}

Task<std::unique_ptr<FileWatch>> S3Files::watch(guest::WatchRequest) {
  co_return not_possible("watches, because S3 does not tell of changes; list it again instead");
}

}  // namespace atl::control
