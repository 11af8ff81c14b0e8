// What a server of buckets answers: listings, errors, upload ids. Anybody may run such a server.
#include <algorithm>

#include "base/strings.h"
#include "fuzz.h"
#include "s3/answers.h"
#include "s3/limits.h"
#include "s3/xml.h"

namespace atl::fuzz {
namespace {

std::size_t depth_of(const s3::XmlElement& element) {
  std::size_t depth = 0;
  for (const auto& child : element.children) {
    depth = std::max(depth, depth_of(child));
  }
  return depth + 1;
}

void check_error(const Error& error) {
  CHECK(error.reason.size() <= 64 && error.message.size() < 400);
  for (const char c : error.reason) {
    CHECK(c > 0x20 && c < 0x7F);
  }
}

}  // namespace

void s3_answers(std::string_view input) {
  if (const auto root = s3::parse_xml(input)) {
    CHECK(depth_of(*root) <= s3::kMaxXmlDepth + 1);
  }
  if (const auto listing = s3::parse_listing(input)) {
    CHECK(listing->objects.size() <= s3::kMaxListedKeys);
    CHECK(listing->prefixes.size() <= s3::kMaxListedKeys);
  }
  if (const auto id = s3::parse_upload_id(input)) {
    CHECK(!id->empty());
  }
  if (const auto error = s3::error_inside(input)) {
    check_error(*error);
  }
  (void)s3::parse_deleted(input);
  Input parts{input};
  const int status = 200 + parts.number() * 2;
  const http::Headers headers{{"x-amz-bucket-region", std::string{parts.until('\n')}},
                              {"content-length", std::string{parts.until('\n')}},
                              {"content-range", std::string{parts.until('\n')}},
                              {"last-modified", std::string{parts.until('\n')}}};
  (void)s3::object_of_headers("key", headers);
  check_error(s3::error_of_answer(status, headers, parts.rest()));
  // What we write as text is read back as it was.
  if (const auto text = s3::xml_text(input)) {
    const auto read = s3::parse_xml(concat("<k>", *text, "</k>"));
    CHECK(!read || read->text == input);
  }
}

Seeds s3_answers_seeds() {
  return {
      "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>t</NextContinuationToken><Contents><Key>a%2Bb+c</Key><Size>1</Size>"
      "<ETag>&quot;e&quot;</ETag><LastModified>2026-11-15T08:22:51.000Z</LastModified></Contents>"
      "<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes></ListBucketResult>",
      "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>",
      "<InitiateMultipartUploadResult><UploadId>id</UploadId></InitiateMultipartUploadResult>",
      "<DeleteResult><Error><Key>a</Key><Code>AccessDenied</Code></Error></DeleteResult>",
      "<!DOCTYPE a [<!ENTITY e \"x\">]><a>&e;</a>",
      "2eu-west-1\n3\nbytes 0-1/3\nSun, 15 Nov 2026 08:22:51 GMT\n<Error/>",
  };
}

}  // namespace atl::fuzz
