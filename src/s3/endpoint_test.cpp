#include "s3/endpoint.h"

#include <gtest/gtest.h>

namespace atl::s3 {
namespace {

std::string place(const Location& location) {
  const auto endpoint = locate(location);
  return endpoint
             ? (endpoint->url.secure ? "https://" : "http://") + http::host_field(endpoint->url) +
                   endpoint->base_path + " " + endpoint->region
             : "refused";
}

TEST(Locate, ByProvider) {
  EXPECT_EQ(place({.bucket = "data"}), "https://data.s3.us-east-1.amazonaws.com us-east-1");
  EXPECT_EQ(place({.bucket = "data", .region = "eu-west-1"}),
            "https://data.s3.eu-west-1.amazonaws.com eu-west-1");
  EXPECT_EQ(place({.bucket = "my.data"}), "https://s3.us-east-1.amazonaws.com/my.data us-east-1");
  EXPECT_EQ(place({.bucket = "data", .endpoint_url = "http://127.0.0.1:9000/"}),
            "http://127.0.0.1:9000/data us-east-1");
  EXPECT_EQ(place({.provider = "ali", .bucket = "data", .region = "cn-hangzhou"}),
            "https://data.s3.oss-cn-hangzhou.aliyuncs.com cn-hangzhou");
  EXPECT_EQ(place({.provider = "r2",
                   .bucket = "data",
                   .endpoint_url = "https://acc.r2.cloudflarestorage.com"}),
            "https://acc.r2.cloudflarestorage.com/data auto");
}

TEST(Locate, RefusesWhatIsNotAPlace) {
  for (const Location& bad : std::vector<Location>{
           {.bucket = ""},
           {.bucket = "ab"},
           {.bucket = "UPPER"},
           {.bucket = "a..b"},
           {.bucket = "-ab"},
           {.bucket = "a/b"},
           {.bucket = "x@y"},
           {.provider = "gcs", .bucket = "data"},
           {.provider = "r2", .bucket = "data"},
           {.provider = "ali", .bucket = "data"},
           {.bucket = "data", .region = "x.evil.example/"},
           {.bucket = "data", .endpoint_url = "ftp://x"},
           {.bucket = "data", .endpoint_url = "https://user@host"},
           {.bucket = "data", .endpoint_url = "https://host/path"},
           {.bucket = "data", .endpoint_url = "https://host?x"},
           {.bucket = "data", .endpoint_url = "https://" + std::string(600, 'a')}}) {
    EXPECT_EQ(place(bad), "refused") << bad.bucket << " " << bad.endpoint_url;
  }
}

std::string chosen(const char* policy, const char* url, std::vector<const char*> addresses) {
  std::vector<io::IpAddress> parsed;
  for (const char* each : addresses) {
    parsed.push_back(*io::IpAddress::parse(each));
  }
  const auto address = EndpointPolicy::parse(policy)->choose(*http::parse_url(url), parsed);
  return address ? address->text() : address.error().message;
}

TEST(EndpointPolicy, PublicHttpsUnlessListed) {
  EXPECT_EQ(chosen("", "https://s3.example", {"8.8.8.8"}), "8.8.8.8");
  EXPECT_TRUE(chosen("", "http://s3.example", {"8.8.8.8"}).contains("must be https"));
  EXPECT_TRUE(
      chosen("", "https://s3.example", {"169.254.169.254"}).contains("--allow-s3-endpoint"));
  EXPECT_TRUE(chosen("", "http://127.0.0.1:9000", {"127.0.0.1"}).contains("--allow-s3-endpoint"));
  // A name with a public and a private address leads to the public one only.
  EXPECT_EQ(chosen("", "https://s3.example", {"10.0.0.1", "8.8.8.8"}), "8.8.8.8");
  EXPECT_EQ(chosen("10.0.0.0/8", "http://s3.example", {"10.0.0.1"}), "10.0.0.1");
  EXPECT_TRUE(chosen("10.0.0.0/8", "http://x", {"127.0.0.1"}).contains("--allow-s3-endpoint"));
  EXPECT_EQ(chosen("minio.lan, 127.0.0.1", "http://MINIO.lan", {"192.168.1.1"}), "192.168.1.1");
  EXPECT_FALSE(EndpointPolicy::parse("a b"));
  EXPECT_FALSE(EndpointPolicy::parse("10.0.0.0/99"));
  EXPECT_FALSE(EndpointPolicy::parse("x,,y"));
}

}  // namespace
}  // namespace atl::s3
