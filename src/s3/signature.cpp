#include "s3/signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "base/strings.h"

namespace atl::s3 {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

std::string hmac(std::string_view key, std::string_view message) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  const auto* made = ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
                            reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                            reinterpret_cast<unsigned char*>(digest.data()), &size);
  CHECK(made != nullptr);
  digest.resize(size);
  return digest;
}

// A key for one day, region and service, so that a leaked one is worth little.
std::string derive_key(const Credentials& credentials, std::string_view day,
                       std::string_view region) {
  std::string key = concat("AWS4", credentials.secret_key.reveal());
  for (const std::string_view step :
       {day, region, std::string_view{"s3"}, std::string_view{"aws4_request"}}) {
    std::string next = hmac(key, step);
    secrets::wipe(key);
    key = std::move(next);
  }
  return key;
}

void append_encoded(std::string& out, std::string_view text, std::string_view also_plain) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (const char c : text) {
    const bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~' || also_plain.contains(c);
    if (plain) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    }
  }
}

// Lower-case names in order; values trimmed, runs of spaces made one, equal names joined.
std::map<std::string, std::string> canonical_headers(const RequestToSign& request) {
  std::map<std::string, std::string> headers;
  headers["host"] = request.host;
  for (const auto& [name, value] : request.headers.lines()) {
    std::string folded;
    for (const char c : trim(value)) {
      if (c != ' ' || !folded.ends_with(' ')) {
        folded += c;
      }
    }
    auto& joined = headers[to_lower(name)];
    joined += concat(joined.empty() ? "" : ",", folded);
  }
  return headers;
}

std::string names_of(const std::map<std::string, std::string>& headers) {
  std::string names;
  for (const auto& [name, value] : headers) {
    names += concat(names.empty() ? "" : ";", name);
  }
  return names;
}

std::string basic_time(std::time_t now) {
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char buffer[32];
  const std::size_t size = std::strftime(buffer, sizeof buffer, "%Y%m%dT%H%M%SZ", &parts);
  return {buffer, size};
}

}  // namespace

std::string encode_path(std::string_view path) {
  std::string out;
  append_encoded(out, path, "/");
  return out;
}

std::string encode_query(const Query& query) {
  Query encoded;
  for (const auto& [name, value] : query) {
    auto& entry = encoded.emplace_back();
    append_encoded(entry.first, name, {});
    append_encoded(entry.second, value, {});
  }
  std::ranges::sort(encoded);
  std::string out;
  for (const auto& [name, value] : encoded) {
    out += concat(out.empty() ? "" : "&", name, "=", value);
  }
  return out;
}

std::string canonical_request(const RequestToSign& request, std::string_view signed_headers) {
  std::string text = concat(request.method, "\n", request.path, "\n", request.query, "\n");
  for (const auto& [name, value] : canonical_headers(request)) {
    text += concat(name, ":", value, "\n");
  }
  return text + concat("\n", signed_headers, "\n", request.payload_sha256);
}

http::Headers sign(RequestToSign request, const Credentials& credentials, std::string_view region,
                   std::time_t now) {
  const std::string time = basic_time(now);
  const std::string day = time.substr(0, 8);
  request.headers.set("x-amz-date", time);
  request.headers.set("x-amz-content-sha256", request.payload_sha256);
  if (!credentials.session_token.empty()) {
    request.headers.set("x-amz-security-token", credentials.session_token.reveal());
  }
  const std::string names = names_of(canonical_headers(request));
  const std::string scope = concat(day, "/", region, "/s3/aws4_request");
  const std::string to_sign = concat(kAlgorithm, "\n", time, "\n", scope, "\n",
                                     hex(sha256(canonical_request(request, names))));
  std::string key = derive_key(credentials, day, region);
  const std::string signature = hex(hmac(key, to_sign));
  secrets::wipe(key);
  http::Headers headers = std::move(request.headers);
  headers.set("authorization",
              concat(kAlgorithm, " Credential=", credentials.access_key.reveal(), "/", scope,
                     ",SignedHeaders=", names, ",Signature=", signature));
  return headers;
}

}  // namespace atl::s3
