// Files and watches in the guest protocol.
#include <algorithm>

#include "base/bytes.h"
#include "base/strings.h"
#include "guest/wire.h"
#include "guest/wire_checks.h"

namespace atl::guest {
namespace {

void put_attributes(ByteWriter& out, const std::vector<Attribute>& attributes) {
  out.u32(static_cast<std::uint32_t>(attributes.size()));
  for (const Attribute& attribute : attributes) {
    out.string(attribute.name).string(attribute.value);
  }
}

std::vector<Attribute> take_attributes(ByteReader& in) {
  constexpr std::uint32_t kLeastBytes = 8;
  std::vector<Attribute> attributes(in.count(kLeastBytes));
  for (Attribute& attribute : attributes) {
    attribute.name = in.string();
    attribute.value = in.string();
  }
  return attributes;
}

Result<> check_attributes(const std::vector<Attribute>& attributes) {
  std::size_t bytes = 0;
  bool good = attributes.size() <= kMaxAttributes;
  for (const auto& [name, value] : attributes) {
    bytes += name.size() + value.size();
    good = good && name.starts_with("user.") && name.size() > 5 && name.size() <= kMaxNameBytes &&
           !has_nul(name);
  }
  return good && bytes <= kMaxAttributeBytes ? Result<>{} : refuse("attributes are malformed");
}

FileDetails take_details(ByteReader& in, std::uint8_t& type) {
  FileDetails details;
  details.owner = in.string();
  details.group = in.string();
  details.resolved_path = in.string();
  type = in.u8();
  details.attributes = take_attributes(in);
  return details;
}

Result<> check_details(FileDetails& details, std::uint8_t type) {
  TRY_DO(check_attributes(details.attributes));
  if (type < 1 || type > 4 || details.owner.size() > kMaxUserBytes || has_nul(details.owner) ||
      details.group.size() > kMaxUserBytes || has_nul(details.group) ||
      details.resolved_path.size() > kMaxPathBytes || has_nul(details.resolved_path)) {
    return refuse("details of a file are malformed");
  }
  details.resolved_type = static_cast<FileType>(type);
  return {};
}

}  // namespace

std::string encode(const PathRequest& request) {
  ByteWriter out;
  out.string(request.path).string(request.user);
  if (request.details || request.depth != 1) {  // guests of an older build do not know them
    out.boolean(request.details).u32(request.depth);
  }
  return std::move(out).bytes();
}

Result<PathRequest> decode_path(std::string_view payload) {
  ByteReader in{payload};
  PathRequest request;
  request.path = in.string();
  request.user = in.string();
  if (in.remaining() > 0) {
    request.details = in.boolean();
    request.depth = in.u32();
  }
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  if (request.depth < 1 || request.depth > kMaxTreeDepth) {
    return fail(Code::kInvalidArgument, concat("depth must be 1 to ", kMaxTreeDepth), "bad_depth");
  }
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
  if (request.take_ownership || !request.attributes.empty()) {  // an older build does not know them
    out.boolean(request.take_ownership);
    put_attributes(out, request.attributes);
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
  if (in.remaining() > 0) {
    request.take_ownership = in.boolean();
    request.attributes = take_attributes(in);
  }
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  TRY_DO(check_attributes(request.attributes));
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
  TRY_DO(validate_user_path(request.destination));
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
  ByteWriter out;
  out.string(request.path).string(request.user).u32(request.mode);
  if (request.uid != UINT32_MAX || request.gid != UINT32_MAX) {  // an older build knows no owners
    out.u32(request.uid).u32(request.gid);
  }
  return std::move(out).bytes();
}

Result<ChangeModeRequest> decode_change_mode(std::string_view payload) {
  ByteReader in{payload};
  ChangeModeRequest request;
  request.path = in.string();
  request.user = in.string();
  request.mode = in.u32();
  if (in.remaining() > 0) {
    request.uid = in.u32();
    request.gid = in.u32();
  }
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  if (request.mode != UINT32_MAX) {
    TRY_DO(check_mode(request.mode));
  }
  return request;
}

std::string encode(const TrustRequest& request) {
  return ByteWriter{}
      .string(request.certificate_pem)
      .string(request.subject_hash)
      .string(request.user)
      .bytes();
}

Result<TrustRequest> decode_trust(std::string_view payload) {
  ByteReader in{payload};
  TrustRequest request;
  request.certificate_pem = in.string();
  request.subject_hash = in.string();
  request.user = in.string();
  TRY_DO(in.finish());
  TRY_DO(check_file_request("/", request.user));
  const bool empty = request.certificate_pem.empty() && request.subject_hash.empty();
  const bool named =
      request.subject_hash.size() == 8 &&
      request.subject_hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  const bool whole = request.certificate_pem.starts_with("-----BEGIN CERTIFICATE-----\n") &&
                     request.certificate_pem.ends_with("-----END CERTIFICATE-----\n") &&
                     request.certificate_pem.size() <= kMaxTrustPemBytes &&
                     request.certificate_pem.find('\0') == std::string::npos;
  if (!empty && !(named && whole)) {
    return fail(Code::kInvalidArgument, "no certificate to trust", "malformed");
  }
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
  if (const auto& details = info.details) {
    out.string(details->owner).string(details->group).string(details->resolved_path);
    out.u8(static_cast<std::uint8_t>(details->resolved_type));
    put_attributes(out, details->attributes);
  }
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
  std::uint8_t resolved_type = 0;
  if (in.remaining() > 0) {
    info.details = take_details(in, resolved_type);
  }
  TRY_DO(in.finish());
  if (info.details) {
    TRY_DO(check_details(*info.details, resolved_type));
  }
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
