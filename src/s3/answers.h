// What a server of buckets answers, decoded. Pure: bytes in, values out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "http/message.h"

namespace atl::s3 {

struct ObjectInfo {
  std::string key;
  std::uint64_t size = 0;
  std::string etag;  // without quotes
  UnixMillis modified = 0;
  std::string upload_mark;  // what Upload wrote beside it; only from a head
};

struct Listing {
  std::vector<ObjectInfo> objects;
  std::vector<std::string> prefixes;  // each ends with the delimiter
  std::string next;                   // continuation token; empty at the end
};

Result<Listing> parse_listing(std::string_view xml);
Result<std::string> parse_upload_id(std::string_view xml);
// Some calls answer 200 and an <Error> later, when they took long: nothing when it went well.
std::optional<Error> error_inside(std::string_view xml);
// The keys that a multi-delete could not delete, as one error.
Result<> parse_deleted(std::string_view xml);
// Of a head or a get. `key` is the caller's.
Result<ObjectInfo> object_of_headers(std::string key, const http::Headers& headers);

// An answer that is not a success. The message names S3's code and what to do, and quotes nothing
// else of the answer: it may repeat the credentials. `reason` is that code.
Error error_of_answer(int status, const http::Headers& headers, std::string_view body);
// Whether the same request may succeed a little later.
bool is_passing(int status, std::string_view s3_code);

}  // namespace atl::s3
