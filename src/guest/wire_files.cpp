// Files and watches in the guest protocol.
#include <algorithm>

#include "base/bytes.h"
#include "base/strings.h"
#include "guest/wire.h"
#include "guest/wire_checks.h"

namespace atl::guest {

std::string encode(const PathRequest& request) {
  return ByteWriter{}.string(request.path).string(request.user).bytes();
}

Result<PathRequest> decode_path(std::string_view payload) {
  ByteReader in{payload};
  PathRequest request;
  request.path = in.string();
  request.user = in.string();
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  return request;
}

std::string encode(const ReadFileRequest& request) {
  ByteWriter out;
  out.string(request.path).string(request.user).u64(request.offset).u64(request.length);
  return std::move(out).bytes();
}

Result<ReadFileRequest> decode_read_file(std::string_view payload) {
  ByteReader in{payload};
  ReadFileRequest request;
  request.path = in.string();
  request.user = in.string();
  request.offset = in.u64();
  request.length = in.u64();
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  return request;
}

std::string encode(const WriteFileRequest& request) {
  ByteWriter out;
  out.string(request.path).string(request.user).u32(request.mode).boolean(request.make_parents);
  out.boolean(request.only_new).boolean(request.only_version.has_value());
  if (const auto& version = request.only_version) {
    out.u64(version->inode).u64(version->size).i64(version->changed_unix_ns);
  }
  return std::move(out).bytes();
}

Result<WriteFileRequest> decode_write_file(std::string_view payload) {
  ByteReader in{payload};
  WriteFileRequest request;
  request.path = in.string();
  request.user = in.string();
  request.mode = in.u32();
  request.make_parents = in.boolean();
  request.only_new = in.boolean();
  if (in.boolean()) {
    FileVersion version;
    version.inode = in.u64();
    version.size = in.u64();
    version.changed_unix_ns = in.i64();
    request.only_version = version;
  }
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  TRY_DO(check_mode(request.mode));
  return request;
}

std::string encode(const MakeDirectoryRequest& request) {
  ByteWriter out;
  out.string(request.path).string(request.user).u32(request.mode).boolean(request.make_parents);
  return std::move(out).bytes();
}

Result<MakeDirectoryRequest> decode_make_directory(std::string_view payload) {
  ByteReader in{payload};
  MakeDirectoryRequest request;
  request.path = in.string();
  request.user = in.string();
  request.mode = in.u32();
  request.make_parents = in.boolean();
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  TRY_DO(check_mode(request.mode));
  return request;
}

std::string encode(const MoveRequest& request) {
  ByteWriter out;
  out.string(request.source).string(request.destination).string(request.user);
  out.boolean(request.make_parents);
  return std::move(out).bytes();
}

Result<MoveRequest> decode_move(std::string_view payload) {
  ByteReader in{payload};
  MoveRequest request;
  request.source = in.string();
  request.destination = in.string();
  request.user = in.string();
  request.make_parents = in.boolean();
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.source, request.user));
  TRY_DO(validate_path(request.destination));
  return request;
}

std::string encode(const RemoveRequest& request) {
  ByteWriter out;
  out.string(request.path).string(request.user);
  out.boolean(request.recursive).boolean(request.missing_ok);
  return std::move(out).bytes();
}

Result<RemoveRequest> decode_remove(std::string_view payload) {
  ByteReader in{payload};
  RemoveRequest request;
  request.path = in.string();
  request.user = in.string();
  request.recursive = in.boolean();
  request.missing_ok = in.boolean();
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  return request;
}

std::string encode(const ChangeModeRequest& request) {
  return ByteWriter{}.string(request.path).string(request.user).u32(request.mode).bytes();
}

Result<ChangeModeRequest> decode_change_mode(std::string_view payload) {
  ByteReader in{payload};
  ChangeModeRequest request;
  request.path = in.string();
  request.user = in.string();
  request.mode = in.u32();
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  TRY_DO(check_mode(request.mode));
  return request;
}

std::string encode(const SyncFileRequest& request) {
  return ByteWriter{}.string(request.path).string(request.user).boolean(request.tree).bytes();
}

Result<SyncFileRequest> decode_sync_file(std::string_view payload) {
  ByteReader in{payload};
  SyncFileRequest request;
  request.path = in.string();
  request.user = in.string();
  request.tree = in.boolean();
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  return request;
}

std::string encode(const WatchRequest& request) {
  ByteWriter out;
  out.string(request.path).string(request.user).boolean(request.recursive);
  return std::move(out).bytes();
}

Result<WatchRequest> decode_watch(std::string_view payload) {
  ByteReader in{payload};
  WatchRequest request;
  request.path = in.string();
  request.user = in.string();
  request.recursive = in.boolean();
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  return request;
}

std::string encode(const FileEvent& event) {
  return ByteWriter{}.u8(static_cast<std::uint8_t>(event.event)).string(event.path).bytes();
}

Result<FileEvent> decode_file_event(std::string_view payload) {
  ByteReader in{payload};
  const auto type = in.u8();
  FileEvent event;
  event.path = in.string();
  TRY_DO(in.finish());
  if (type < 1 || type > 6 || !is_result_path(event.path)) {
    return fail(Code::kInvalidArgument, "file event is malformed", "malformed");
  }
  event.event = static_cast<FileEventType>(type);
  return event;
}

std::string encode(const FileInfo& info) {
  ByteWriter out;
  out.string(info.name).string(info.path).u8(static_cast<std::uint8_t>(info.type));
  out.u64(info.size).u32(info.mode).u32(info.uid).u32(info.gid).i64(info.modified_unix_ns);
  out.string(info.link_target).u64(info.inode).i64(info.changed_unix_ns);
  return std::move(out).bytes();
}

Result<FileInfo> decode_file(std::string_view payload) {
  ByteReader in{payload};
  FileInfo info;
  info.name = in.string();
  info.path = in.string();
  const auto type = in.u8();
  info.size = in.u64();
  info.mode = in.u32();
  info.uid = in.u32();
  info.gid = in.u32();
  info.modified_unix_ns = in.i64();
  info.link_target = in.string();
  info.inode = in.u64();
  info.changed_unix_ns = in.i64();
  TRY_DO(in.finish());
  if (type < 1 || type > 4 || info.mode > 07777) {
    return fail(Code::kInvalidArgument, "file type or mode is out of range", "malformed");
  }
  info.type = static_cast<FileType>(type);
  const bool name_ok = info.name.size() <= kMaxNameBytes && !has_nul(info.name) &&
                       (info.name == "/" || info.name.find('/') == std::string::npos);
  const bool path_ok = info.path.size() <= kMaxPathBytes + 1 + kMaxNameBytes &&
                       !info.path.empty() && info.path[0] == '/' && !has_nul(info.path);
  if (!name_ok || !path_ok || info.link_target.size() > kMaxPathBytes ||
      has_nul(info.link_target)) {
    return fail(Code::kInvalidArgument, "file name or path is malformed", "malformed");
  }
  return info;
}

}  // namespace atl::guest
