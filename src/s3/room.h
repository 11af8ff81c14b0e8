// A bucket of an S3-compatible server, seen as values and tasks. The only header of this room that
// others need.
//
// Every call is signed (Signature V4), has a deadline, and is tried again a few times when the
// server or the way to it has a passing trouble; all of them may be repeated without harm. Errors
// have our codes and name S3's code in `reason`; none quotes what the server said.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/task.h"
#include "s3/answers.h"
#include "s3/credentials.h"
#include "s3/endpoint.h"

namespace atl::io {
class OffloadPool;
class Reactor;
}  // namespace atl::io
namespace atl::tls {
class Context;
}

namespace atl::s3 {

// What the buckets of one team take of that.
struct TeamShare {
  std::size_t upload_bytes = 0;
  std::size_t lookups = 0;
  Event looked_up;
};

// What all buckets of a process share. Outlives them.
struct Surroundings {
  io::Reactor& reactor;
  io::OffloadPool& threads;    // where large bodies are hashed
  io::OffloadPool& resolvers;  // where names are looked up: a name server may take its time
  const tls::Context& tls;
  const WallClock& clock;
  EndpointPolicy policy;
  std::size_t upload_bytes = 0;  // held by uploads now; see kMaxUploadBytes
  std::map<std::string, TeamShare> teams{};
};

struct Range {
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;  // none: to the end; never 0
};

struct GetOptions {
  std::optional<Range> range;
  std::string if_match;  // an ETag without quotes; empty: none
};

// An object while it is read. Destroyed before its end it closes the connection.
class ObjectReader {
 public:
  virtual ~ObjectReader() = default;
  virtual const ObjectInfo& info() const = 0;  // of the whole object
  virtual Task<std::size_t> read(std::span<char> buffer) = 0;
};

// When there must be nothing yet, or exactly this object. Checked by the server, where it can.
struct PutOptions {
  bool only_new = false;
  std::string if_match;  // an ETag without quotes; empty: none
};

// An object while it is written: there whole when finish() has succeeded, not at all before. Who
// does not finish, or fails, must abandon; until then parts may be kept, and paid for. The bucket
// outlives it.
class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;
  virtual Task<> write(std::string_view bytes) = 0;
  virtual Task<ObjectInfo> finish() = 0;
  virtual Task<> abandon() = 0;
};

struct ListOptions {
  std::string prefix;
  bool by_directory = false;  // groups what has a '/' behind the prefix into `prefixes`
  std::string continuation;
  std::size_t max_keys = 1000;
};

// Loop thread only. Calls may overlap; the bucket outlives them.
class Bucket {
 public:
  static Result<std::unique_ptr<Bucket>> open(Surroundings& surroundings, const Location& location,
                                              Credentials credentials, const std::string& team_id);
  ~Bucket();
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;

  Task<ObjectInfo> head(std::string key);
  Task<std::unique_ptr<ObjectReader>> get(std::string key, GetOptions options);
  Result<std::unique_ptr<ObjectWriter>> put(std::string key, PutOptions options);
  // At once. As durable as S3 is when it is answered.
  Task<ObjectInfo> put_bytes(std::string key, std::string bytes, PutOptions options = {});
  Task<> copy(std::string from, std::string to);
  Task<> remove(std::string key);  // also when there is none
  Task<> remove_all(std::vector<std::string> keys);
  Task<Listing> list(ListOptions options);

 private:
  struct Impl;
  explicit Bucket(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace atl::s3
