#include "s3/answers.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "base/strings.h"
#include "s3/limits.h"
#include "s3/xml.h"

namespace atl::s3 {
namespace {

constexpr std::string_view kNotS3 =
    "the bucket's server answered with something that is not S3's XML";

std::unexpected<Error> not_s3() {
  return fail(Code::kUnavailable, std::string{kNotS3});
}

std::optional<UnixMillis> parse_time(std::string_view text, const char* format) {
  std::tm parts{};
  const std::string copy{text.substr(0, 64)};
  if (::strptime(copy.c_str(), format, &parts) == nullptr) {
    return std::nullopt;
  }
  return static_cast<UnixMillis>(::timegm(&parts)) * 1000;
}

std::string unquoted(std::string_view etag) {
  etag = trim(etag);
  if (etag.size() >= 2 && etag.starts_with('"') && etag.ends_with('"')) {
    etag = etag.substr(1, etag.size() - 2);
  }
  return std::string{etag};
}

Result<std::string> decode_key(std::string_view text, bool encoded) {
  if (!encoded) {
    return std::string{text};
  }
  auto decoded = http::percent_decode(text, true);
  if (!decoded) {
    return not_s3();
  }
  return *std::move(decoded);
}

// Only the characters of a code: it goes into messages and logs.
std::string safe_code(std::string_view text) {
  std::string code;
  for (const char c : text.substr(0, 64)) {
    if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
        c == '-') {
      code += c;
    }
  }
  return code;
}

struct Meaning {
  std::string_view s3_code;
  Code code;
  std::string_view advice;
};
constexpr auto kMeanings = std::to_array<Meaning>({
    {"NoSuchKey", Code::kNotFound, "there is no such object"},
    {"NoSuchUpload", Code::kNotFound, "the upload is gone"},
    {"NoSuchBucket", Code::kNotFound, "there is no such bucket; check its name and its region"},
    {"AccessDenied", Code::kPermissionDenied, "the credentials may not do this in the bucket"},
    {"InvalidAccessKeyId", Code::kPermissionDenied, "the access key is not known; check it"},
    {"SignatureDoesNotMatch", Code::kPermissionDenied,
     "the secret key does not belong to the access key; check both and the region"},
    {"ExpiredToken", Code::kPermissionDenied,
     "the session token has expired; use fresh credentials"},
    {"InvalidToken", Code::kPermissionDenied, "the session token is not valid; check it"},
    {"RequestTimeTooSkewed", Code::kPermissionDenied, "the clock of this host is wrong; set it"},
    {"AuthorizationHeaderMalformed", Code::kInvalidArgument,
     "the region is probably wrong; check it"},
    {"PermanentRedirect", Code::kInvalidArgument, "the bucket is in another region; set it"},
    {"TemporaryRedirect", Code::kUnavailable, "the bucket is being moved; try again later"},
    {"PreconditionFailed", Code::kFailedPrecondition, "the object is not the expected one"},
    {"NotModified", Code::kFailedPrecondition, "the object has not changed"},
    {"InvalidRange", Code::kOutOfRange, "the object is shorter than the range"},
    {"EntityTooLarge", Code::kResourceExhausted, "the object is too large for the bucket's server"},
    {"QuotaExceeded", Code::kResourceExhausted, "the bucket is full"},
    {"KeyTooLongError", Code::kInvalidArgument, "the name is too long for the bucket's server"},
    {"InvalidObjectState", Code::kFailedPrecondition, "the object is archived; restore it first"},
    {"SlowDown", Code::kUnavailable, "the bucket is overloaded; try again later"},
});

Meaning meaning_of(int status, std::string_view s3_code) {
  const auto known = std::ranges::find(kMeanings, s3_code, &Meaning::s3_code);
  if (known != kMeanings.end()) {
    return *known;
  }
  switch (status) {
    case 304:
      return {"NotModified", Code::kFailedPrecondition, "the object has not changed"};
    case 401:
    case 403:
      return {"AccessDenied", Code::kPermissionDenied,
              "the credentials are wrong or may not do this in the bucket"};
    case 404:
      return {"NotFound", Code::kNotFound, "there is no such object"};
    case 409:
      return {"Conflict", Code::kAborted, "somebody else changes the same object; try again"};
    case 412:
      return {"PreconditionFailed", Code::kFailedPrecondition,
              "the object is not the expected one"};
    case 413:
      return {"TooLarge", Code::kResourceExhausted, "it is too large for the bucket's server"};
    case 416:
      return {"InvalidRange", Code::kOutOfRange, "the object is shorter than the range"};
    case 429:
      return {"TooManyRequests", Code::kUnavailable, "the bucket is overloaded; try again later"};
    case 501:
      return {"NotImplemented", Code::kUnimplemented, "the bucket's server cannot do this"};
    default:
      break;
  }
  if (status >= 300 && status < 400) {
    return {"Redirect", Code::kInvalidArgument,
            "the bucket is somewhere else; set its region or its own endpoint_url"};
  }
  return status >= 500 ? Meaning{"", Code::kUnavailable, "the bucket's server has trouble"}
                       : Meaning{"", Code::kInvalidArgument, "the bucket's server refused it"};
}

Error explain(int status, std::string_view s3_code, std::string_view detail) {
  const Meaning meaning = meaning_of(status, s3_code);
  const auto shown = s3_code.empty() ? meaning.s3_code : s3_code;
  return {meaning.code,
          concat(meaning.advice, detail, " (S3 answered ", status, shown.empty() ? "" : " ", shown,
                 ")"),
          std::string{shown}};
}

}  // namespace

Result<Listing> parse_listing(std::string_view xml) {
  TRY(const XmlElement root, parse_xml(xml));
  if (root.name != "ListBucketResult") {
    return not_s3();
  }
  const bool encoded = root.text_of("EncodingType") == "url";
  Listing listing;
  for (const XmlElement& element : root.children) {
    if (element.name == "Contents") {
      const auto size = parse_u64(trim(element.text_of("Size")));
      if (!size || listing.objects.size() == kMaxListedKeys) {
        return not_s3();
      }
      auto& object = listing.objects.emplace_back();
      TRY(object.key, decode_key(element.text_of("Key"), encoded));
      object.size = *size;
      object.etag = unquoted(element.text_of("ETag"));
      object.modified =
          parse_time(element.text_of("LastModified"), "%Y-%m-%dT%H:%M:%S").value_or(0);
    } else if (element.name == "CommonPrefixes") {
      if (listing.prefixes.size() == kMaxListedKeys) {
        return not_s3();
      }
      TRY(auto prefix, decode_key(element.text_of("Prefix"), encoded));
      listing.prefixes.push_back(std::move(prefix));
    }
  }
  if (root.text_of("IsTruncated") == "true") {
    listing.next = root.text_of("NextContinuationToken");
    if (listing.next.empty()) {
      return not_s3();
    }
  }
  return listing;
}

Result<std::string> parse_upload_id(std::string_view xml) {
  TRY(const XmlElement root, parse_xml(xml));
  std::string id{root.text_of("UploadId")};
  if (root.name != "InitiateMultipartUploadResult" || id.empty() || id.size() > kMaxKeyBytes) {
    return not_s3();
  }
  return id;
}

std::optional<Error> error_inside(std::string_view xml) {
  const auto root = parse_xml(xml);
  if (!root) {
    return root.error();
  }
  if (root->name != "Error") {
    return std::nullopt;
  }
  return explain(500, safe_code(root->text_of("Code")), "");
}

Result<> parse_deleted(std::string_view xml) {
  TRY(const XmlElement root, parse_xml(xml));
  if (root.name != "DeleteResult") {
    return not_s3();
  }
  if (const XmlElement* error = root.find("Error")) {
    return fail(explain(500, safe_code(error->text_of("Code")), ""));
  }
  return {};
}

Result<ObjectInfo> object_of_headers(std::string key, const http::Headers& headers) {
  ObjectInfo object{.key = std::move(key)};
  // Of a part of an object the range says how long the whole is.
  std::string_view length = headers.get("content-length");
  if (const auto range = headers.get("content-range"); !range.empty()) {
    length = range.substr(std::min(range.size(), range.rfind('/') + 1));
  }
  const auto size = parse_u64(length);
  if (!size) {
    return fail(Code::kUnavailable, "the bucket's server did not say how long an object is");
  }
  object.size = *size;
  object.etag = unquoted(headers.get("etag"));
  object.modified = parse_time(headers.get("last-modified"), "%a, %d %b %Y %H:%M:%S").value_or(0);
  object.upload_mark = headers.get("x-amz-meta-atoll-upload");
  return object;
}

Error error_of_answer(int status, const http::Headers& headers, std::string_view body) {
  std::string s3_code;
  if (const auto root = parse_xml(body); root && root->name == "Error") {
    s3_code = safe_code(root->text_of("Code"));
  }
  const std::string region = safe_code(headers.get("x-amz-bucket-region"));
  const std::string detail = status == 301 && !region.empty() ? concat(": ", region) : "";
  return explain(status, s3_code, detail);
}

bool is_passing(int status, std::string_view s3_code) {
  return status == 429 || status == 500 || status == 502 || status == 503 || status == 504 ||
         s3_code == "SlowDown" || s3_code == "RequestTimeout" || s3_code == "InternalError";
}

}  // namespace atl::s3
