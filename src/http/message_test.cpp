// Values: headers, percent coding, queries, URLs, and the router's table.
#include "http/message.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "http/client.h"
#include "http/router.h"

namespace atl::http {
namespace {

TEST(Headers, NamesCompareWithoutCase) {
  Headers headers{{"Content-Type", "a"}, {"X", "1"}, {"x", "2"}};
  EXPECT_EQ("a", headers.get("content-type"));
  EXPECT_EQ(2U, headers.count("X"));
  EXPECT_EQ("1", headers.get("x"));
  headers.set("X", "3");
  EXPECT_EQ(1U, headers.count("x"));
  EXPECT_EQ("3", headers.get("x"));
  EXPECT_FALSE(headers.has("y"));
  EXPECT_EQ("", headers.get("y"));
}

TEST(PercentCoding, RoundTripsEveryByte) {
  std::string all;
  for (int i = 0; i < 256; ++i) {
    all += static_cast<char>(i);
  }
  const auto encoded = percent_encode(all);
  EXPECT_EQ(std::string::npos, encoded.find_first_of(" /?#&+\n"));
  EXPECT_EQ(all, percent_decode(encoded));
}

TEST(PercentCoding, MalformedEscapesAreRefused) {
  EXPECT_EQ("a b", percent_decode("a%20b"));
  EXPECT_EQ("a+b", percent_decode("a+b"));
  EXPECT_EQ("a b", percent_decode("a+b", true));
  EXPECT_EQ("\xC3\xA9", percent_decode("%c3%A9"));
  for (const auto* bad : {"%", "%2", "a%", "a%4", "%zz", "%4g", "%%20", "%+1"}) {
    EXPECT_FALSE(percent_decode(bad)) << bad;
  }
}

TEST(Query, FindsDecodedValues) {
  EXPECT_EQ("1", query_value("a=1&b=2", "a"));
  EXPECT_EQ("2", query_value("a=1&b=2", "b"));
  EXPECT_EQ("", query_value("a&b=2", "a"));
  EXPECT_EQ("x y/z", query_value("p=x+y%2Fz", "p"));
  EXPECT_EQ("1=2", query_value("a=1=2", "a"));
  EXPECT_EQ("v", query_value("a%20b=v", "a b"));
  EXPECT_EQ("first", query_value("a=first&a=second", "a"));
  EXPECT_FALSE(query_value("a=1", "c"));
  EXPECT_FALSE(query_value("", "c"));
  EXPECT_FALSE(query_value("a=%zz", "a"));
}

TEST(Url, Parses) {
  const auto plain = parse_url("http://127.0.0.1");
  ASSERT_TRUE(plain);
  EXPECT_EQ("127.0.0.1", plain->host);
  EXPECT_EQ(80, plain->port);
  EXPECT_EQ("", plain->base_path);
  const auto full = parse_url("http://localhost:8080/base/path/");
  ASSERT_TRUE(full);
  EXPECT_EQ("localhost", full->host);
  EXPECT_EQ(8080, full->port);
  EXPECT_EQ("/base/path", full->base_path);
  const auto v6 = parse_url("http://[::1]:81/");
  ASSERT_TRUE(v6);
  EXPECT_EQ("::1", v6->host);
  EXPECT_EQ(81, v6->port);
  const auto secure = parse_url("https://x");
  ASSERT_TRUE(secure);
  EXPECT_TRUE(secure->secure);
  EXPECT_EQ(443, secure->port);
  for (const auto* bad : {"", "x", "ftp://x", "https://", "http://", "http://:80",
                          "http://x:", "http://x:0", "http://x:65536", "http://a@b", "http://[::1",
                          "http://[::1]x", "http://x y", "http://x:8a"}) {
    EXPECT_FALSE(parse_url(bad)) << bad;
  }
}

struct RouteRow {
  const char* method;
  const char* path;
  const char* pattern;     // "" when none
  const char* parameters;  // "name=value;"
  const char* allowed;
};

TEST(Router, Table) {
  Router router;
  const RouteHandler none = [](Exchange&, const PathParameters&) -> Task<> { co_return ok(); };
  for (const auto& [method, pattern] : std::vector<std::pair<const char*, const char*>>{
           {"GET", "/"},
           {"GET", "/s/{id}"},
           {"DELETE", "/s/{id}"},
           {"GET", "/s/all"},
           {"GET", "/s/{id}/files"},
           {"POST", "/s/{id}/{verb}"},
           {"GET", "/{a}/x/{c}"},
           {"GET", "/{a}/{b}/z"},
       }) {
    router.add(method, pattern, none);
  }
  const RouteRow rows[] = {
      {"GET", "/", "/", "", ""},
      {"GET", "/s/1", "/s/{id}", "id=1;", ""},
      {"GET", "/s/all", "/s/all", "", ""},
      {"DELETE", "/s/all", "/s/{id}", "id=all;", ""},
      {"GET", "/s/a%2Fb%20c", "/s/{id}", "id=a/b c;", ""},
      {"GET", "/s/%zz", "", "", ""},
      {"GET", "/s/a%00b", "", "", ""},
      {"GET", "/s/", "", "", ""},
      {"GET", "/s//files", "", "", ""},
      {"GET", "/s", "", "", ""},
      {"GET", "//s/1", "", "", ""},
      {"GET", "s/1", "", "", ""},
      {"GET", "*", "", "", ""},
      {"GET", "", "", "", ""},
      {"GET", "/s/1/files/", "", "", ""},
      {"POST", "/s/1", "", "", "GET, DELETE"},
      {"PUT", "/s/1/files", "", "", "GET, POST"},
      {"POST", "/s/1/files", "/s/{id}/{verb}", "id=1;verb=files;", ""},
      {"GET", "/q/x/z", "/{a}/x/{c}", "a=q;c=z;", ""},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(std::string{row.method} + " " + row.path);
    const auto match = router.match(row.method, row.path);
    EXPECT_EQ(std::string_view{row.pattern}.empty(), match.handler == nullptr);
    EXPECT_EQ(row.pattern, match.pattern);
    std::string parameters;
    for (const auto& [name, value] : match.parameters) {
      parameters += concat(name, "=", value, ";");
    }
    EXPECT_EQ(row.parameters, parameters);
    EXPECT_EQ(row.allowed, match.allowed_methods);
  }
}

}  // namespace
}  // namespace atl::http
