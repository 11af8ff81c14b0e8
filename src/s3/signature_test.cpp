// The examples of the S3 documentation ("Examples: Signature Calculations"), and the encodings that
// clients usually get wrong.
#include "s3/signature.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/strings.h"

namespace atl::s3 {
namespace {

constexpr std::time_t kMay24 = 1369353600;  // 2013-05-24T00:00:00Z

Credentials example() {
  return {.access_key = secrets::Plaintext{"AKIAIOSFODNN7EXAMPLE"},
          .secret_key = secrets::Plaintext{"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"},
          .session_token = {}};
}

std::string signature_of(RequestToSign request, std::string_view body = {}) {
  request.host = "examplebucket.s3.amazonaws.com";
  request.payload_sha256 = hex(sha256(body));
  const auto signed_headers = sign(std::move(request), example(), "us-east-1", kMay24);
  const auto field = signed_headers.get("authorization");
  return std::string{field.substr(field.rfind('=') + 1)};
}

TEST(Signature, MatchesTheDocumentedExamples) {
  EXPECT_EQ(
      signature_of(
          {.method = "GET", .path = encode_path("/test.txt"), .headers = {{"Range", "bytes=0-9"}}}),
      "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(signature_of({.method = "PUT",
                          .path = encode_path("/test$file.text"),
                          .headers = {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                                      {"x-amz-storage-class", "REDUCED_REDUNDANCY"}}},
                         "Welcome to Amazon S3."),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  EXPECT_EQ(
      signature_of({.method = "GET", .path = "/", .query = encode_query({{"lifecycle", ""}})}),
      "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(signature_of({.method = "GET",
                          .path = "/",
                          .query = encode_query({{"prefix", "J"}, {"max-keys", "2"}})}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(Signature, ASessionTokenIsSentAndSigned) {
  Credentials temporary = example();
  temporary.session_token = secrets::Plaintext{"token"};
  const auto headers = sign({.method = "GET", .host = "h", .path = "/"}, temporary, "r", kMay24);
  EXPECT_EQ(headers.get("x-amz-security-token"), "token");
  EXPECT_TRUE(headers.get("authorization").contains("x-amz-security-token,Signature="));
  EXPECT_FALSE(headers.get("authorization").contains("wJalr"));
}

TEST(Signature, EncodesAsS3Does) {
  EXPECT_EQ(encode_path("/a//b/../c d+e%f*~'(ü)"), "/a//b/../c%20d%2Be%25f%2A~%27%28%C3%BC%29");
  EXPECT_EQ(encode_query({{"b", "x/y z"}, {"a", "+"}, {"a", "&="}, {"A", ""}}),
            "A=&a=%26%3D&a=%2B&b=x%2Fy%20z");
}

TEST(Signature, CanonicalFormFoldsHeaders) {
  const RequestToSign request{
      .method = "GET",
      .host = "h:9000",
      .path = "/k",
      .headers = {{"X-Amz-B", "  a   b  "}, {"x-amz-a", "1"}, {"X-Amz-A", "2"}},
      .payload_sha256 = "hash"};
  EXPECT_EQ(canonical_request(request, "names"),
            "GET\n/k\n\nhost:h:9000\nx-amz-a:1,2\nx-amz-b:a b\n\nnames\nhash");
}

}  // namespace
}  // namespace atl::s3
