// The canonical form of a request to a bucket: names of objects are anybody's bytes, and must
// neither leave their place in what is signed nor come out as another name.
#include <algorithm>

#include "base/random.h"
#include "base/strings.h"
#include "fuzz.h"
#include "s3/signature.h"

namespace atl::fuzz {
namespace {

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view{"-_.~/%=&"}.contains(c);
}

}  // namespace

void s3_signature(std::string_view input) {
  Input parts{input};
  const std::string key = concat("/", parts.until('\n'));
  const std::string path = s3::encode_path(key);
  CHECK(std::ranges::all_of(path, is_plain));
  CHECK(http::percent_decode(path) == key);
  s3::Query query;
  while (!parts.empty() && query.size() < 8) {
    const auto name = parts.until('=');
    query.emplace_back(name, parts.until('&'));
  }
  const std::string text = s3::encode_query(query);
  CHECK(std::ranges::all_of(text, is_plain));
  for (const auto& [name, value] : query) {
    const bool once =
        std::ranges::count(query, name, &std::pair<std::string, std::string>::first) == 1;
    CHECK(!once || name.empty() || http::query_value(text, name) == value);
  }
  s3::RequestToSign request{.method = "GET",
                            .host = "h",
                            .path = path,
                            .query = text,
                            .headers = {{"x-amz-meta-a", "1"}},
                            .payload_sha256 = hex(sha256(input))};
  // Method, path, query, two headers, an empty line, names, hash: whatever the bytes were.
  CHECK(split(s3::canonical_request(request, "host;x-amz-meta-a"), '\n').size() == 8);
  const s3::Credentials credentials{
      secrets::Plaintext{"id"}, secrets::Plaintext{input.substr(0, 64)}, {}};
  const auto headers = s3::sign(std::move(request), credentials, "us-east-1", 1369353600);
  const auto field = headers.get("authorization");
  CHECK(field.size() - field.rfind('=') == 65);
}

Seeds s3_signature_seeds() {
  return {"a b+c%d/\xC3\xBC\nprefix=J&max-keys=2", "a//../b\nx=&x=1&X=%",
          "\nuploads=", "?&=;:@$,!'()*~\ncontinuation-token=a+b/c==&list-type=2"};
}

}  // namespace atl::fuzz
