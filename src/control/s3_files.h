// The files of a volume in a bucket.
//
// Objects are files, and a directory is what has objects below its name, or an empty object whose
// name ends with a slash, which is how an empty directory is kept. Nothing else exists: no modes,
// no owners, no links. Objects are written whole; moving a file copies it and then deletes the old
// one, so a crash in between leaves both; a directory cannot be moved. Keys that are no path
// ("a//b",
// "../x") are not shown. The version of a file is a hash of the ETag its object has.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "control/files.h"
#include "s3/room.h"

namespace atl::control {

struct S3Place {
  std::shared_ptr<s3::Bucket> bucket;  // shared with the volumes that opened it, and with streams
  std::string prefix;                  // empty, or with a slash at its end
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  UnixMillis created_at = 0;
  std::function<void(Task<>)> later;  // runs a task after the one who asks has gone
  std::function<void()> changed;      // told when there is more or less in it than before
};

class S3Files final : public Files {
 public:
  explicit S3Files(S3Place place) : place_(std::move(place)) {}

  Task<guest::FileInfo> stat(guest::PathRequest request) override;
  Task<std::unique_ptr<DirectoryReader>> read_directory(guest::PathRequest request) override;
  Task<std::unique_ptr<FileReader>> read_file(guest::ReadFileRequest request) override;
  Task<std::unique_ptr<FileWriter>> write_file(guest::WriteFileRequest request) override;
  Task<> make_directory(guest::MakeDirectoryRequest request) override;
  Task<> move(guest::MoveRequest request) override;
  Task<> remove(guest::RemoveRequest request) override;
  Task<> change_mode(guest::ChangeModeRequest request) override;
  Task<std::unique_ptr<FileWatch>> watch(guest::WatchRequest request) override;
  // What S3 has answered is durable.
  Task<> sync(std::string, bool) override { co_return ok(); }

 private:
  Task<s3::ObjectInfo> head_file(std::string key, std::string path);
  Task<bool> is_directory(std::string key);
  Task<> keep_parent(std::string key);
  Task<bool> remove_below(std::string key, bool recursive);
  Task<s3::PutOptions> conditions(std::string key, guest::WriteFileRequest request);

  S3Place place_;
};

// Of an object or a directory, as the file API tells it. `name` is the last part of the path.
guest::FileInfo s3_file_info(const S3Place& place, std::string path, const s3::ObjectInfo& object);
guest::FileInfo s3_directory_info(const S3Place& place, std::string path);
// The same for the same content; what FileVersion has of it.
std::uint64_t s3_version(std::string_view etag);
// "/a/b" -> prefix + "a/b", "/" -> prefix. Refuses what could be no path.
Result<std::string> s3_key(const S3Place& place, std::string_view path);

// The streams, in s3_streams.cpp.
std::unique_ptr<FileReader> make_s3_reader(S3Place place, guest::FileInfo info,
                                           std::unique_ptr<s3::ObjectReader> reader);
std::unique_ptr<FileReader> make_s3_range_reader(S3Place place, guest::FileInfo info,
                                                 s3::ObjectInfo object, std::uint64_t offset,
                                                 std::uint64_t length);
std::unique_ptr<FileWriter> make_s3_writer(S3Place place, std::string path,
                                           std::unique_ptr<s3::ObjectWriter> writer);
std::unique_ptr<DirectoryReader> make_s3_directory(S3Place place, std::string path,
                                                   std::string prefix, s3::Listing first);

}  // namespace atl::control
