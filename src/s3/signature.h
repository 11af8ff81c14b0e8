// AWS Signature Version 4 for S3: what a request says about itself, signed. No I/O.
//
// Server and client each write the request in one canonical form and compare a keyed hash of it. So
// the path and the query that go on the wire are made here too, once: two encoders would differ
// some day. S3 is the service whose paths are encoded once and never normalised: "a//b" and
// "a/../b" are keys like any other.
#pragma once

#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/message.h"
#include "s3/credentials.h"

namespace atl::s3 {

using Query = std::vector<std::pair<std::string, std::string>>;  // decoded

struct RequestToSign {
  std::string method;
  std::string host;            // the Host field as sent
  std::string path;            // encoded, from encode_path
  std::string query;           // encoded and sorted, from encode_query
  http::Headers headers;       // all of them are signed
  std::string payload_sha256;  // hex
};

// Everything but unreserved characters and '/' becomes %XX with capital digits.
std::string encode_path(std::string_view path);
// Sorted by encoded name, then value: the canonical form, and a valid query string.
std::string encode_query(const Query& query);

// What is hashed, line by line; for tests and for the fuzzer.
std::string canonical_request(const RequestToSign& request, std::string_view signed_headers);

// Adds x-amz-date, x-amz-content-sha256, x-amz-security-token and authorization to `headers`.
http::Headers sign(RequestToSign request, const Credentials& credentials, std::string_view region,
                   std::time_t now);

}  // namespace atl::s3
