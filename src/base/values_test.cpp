// Bytes, strings, JSON, metrics and error tables: the pure parts of base.
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/random.h"
#include "base/strings.h"

namespace atl {
namespace {

TEST(Bytes, RoundTrip) {
  ByteWriter writer;
  writer.u8(7)
      .u32(1U << 31)
      .u64(1ULL << 63)
      .i64(-5)
      .boolean(true)
      .string("a\0b")
      .strings({"x", ""});
  ByteReader reader{writer.bytes()};
  EXPECT_EQ(7, reader.u8());
  EXPECT_EQ(1U << 31, reader.u32());
  EXPECT_EQ(1ULL << 63, reader.u64());
  EXPECT_EQ(-5, reader.i64());
  EXPECT_TRUE(reader.boolean());
  EXPECT_EQ("a", reader.string());
  EXPECT_EQ((std::vector<std::string>{"x", ""}), reader.strings());
  EXPECT_TRUE(reader.finish());
}

TEST(Bytes, EveryTruncationFails) {
  const std::string full =
      std::move(ByteWriter{}.u32(9).string("hello").strings({"a", "bc"})).bytes();
  for (std::size_t size = 0; size < full.size(); ++size) {
    ByteReader reader{std::string_view{full}.substr(0, size)};
    reader.u32();
    reader.string();
    reader.strings();
    EXPECT_FALSE(reader.finish()) << size;
  }
}

TEST(Bytes, HostileCountsDoNotAllocate) {
  const std::string bytes = std::move(ByteWriter{}.u32(0xffffffff)).bytes();
  ByteReader reader{bytes};
  EXPECT_TRUE(reader.strings().empty());
  EXPECT_FALSE(reader.finish());
}

TEST(Bytes, TrailingBytesAreRefused) {
  ByteReader reader{"\x01\x02"};
  reader.u8();
  EXPECT_FALSE(reader.finish());
}

TEST(Json, ParsesAndDumps) {
  const auto json = Json::parse(R"( {"a":[1,-2.5,true,null,"x\u00e9\n"],"b":{}} )");
  ASSERT_TRUE(json);
  EXPECT_EQ("{\"a\":[1,-2.5,true,null,\"x\xC3\xA9\\n\"],\"b\":{}}", json->dump());
  EXPECT_EQ(1, *json->find("a")->as_array()->at(0).as_integer());
  EXPECT_EQ(nullptr, json->find("missing"));
}

TEST(Json, RefusesWhatTwoReadersCouldReadDifferently) {
  for (const char* text : {R"({"a":1,"a":2})", "{", "[1,]", "{} x", "", "nul", "'a'", "[1]2",
                           "{\"a\":01}", "\"\x01\"", "[1] // c", "1e400", "-1e999"}) {
    EXPECT_FALSE(Json::parse(text)) << text;
  }
  EXPECT_FALSE(Json::parse(std::string(100, '[') + std::string(100, ']')));
}

TEST(Json, NumbersAreWhatTheTextSays) {
  for (const char* text : {"0.1", "1e-7", "2.2250738585072014e-308", "1.7976931348623157e308",
                           "5e-324", "123456.789", "0.30000000000000004"}) {
    EXPECT_EQ(std::strtod(text, nullptr), Json::parse(text)->as_number()) << text;
  }
  EXPECT_EQ("0", Json::parse("-0.0")->dump());
  EXPECT_EQ("0", Json::parse("1e-400")->dump());
}

// Whoever may send JSON may send a great many members; that must not cost their square.
TEST(Json, ManyMembersAreReadInNoTime) {
  std::string text = "{";
  for (int i = 0; i < 500'000; ++i) {
    text += "\"" + std::to_string(i) + "\":0,";
  }
  const auto json = Json::parse(text + "\"x\":1}");
  ASSERT_TRUE(json);
  EXPECT_EQ(500'001U, json->as_object()->size());
  EXPECT_FALSE(Json::parse(text + "\"7\":1}"));
}

TEST(Json, InvalidUtf8IsRepairedOnOutput) {
  EXPECT_EQ("\"a\xEF\xBF\xBD\"", Json{"a\xff"}.dump());
}

TEST(Strings, Quantities) {
  EXPECT_EQ(1073741824U, parse_quantity("1Gi"));
  EXPECT_EQ(1610612736U, parse_quantity("1.5Gi"));
  EXPECT_EQ(2000000U, parse_quantity("2M"));
  EXPECT_EQ(512U, parse_quantity("512"));
  for (const char* text : {"", "Gi", "-1Gi", "1Zi", "1 Gi", "1e9Gi", "99999999999Ti", "1.2.3Mi"}) {
    EXPECT_FALSE(parse_quantity(text)) << text;
  }
  EXPECT_EQ("1536Mi", format_quantity(1536ULL << 20));
  EXPECT_EQ("1Gi", format_quantity(1ULL << 30));
}

TEST(Strings, Base64) {
  for (const std::string& text : {std::string{}, std::string{"a"}, std::string{"ab"},
                                  std::string{"abc"}, std::string("\0\xff\x80", 3)}) {
    EXPECT_EQ(text, base64_decode(base64_encode(text)));
  }
  EXPECT_FALSE(base64_decode("a"));
  EXPECT_FALSE(base64_decode("a*=="));
}

TEST(Strings, Utf8) {
  EXPECT_TRUE(is_utf8("h\xC3\xA9\xF0\x9F\x98\x80"));
  EXPECT_FALSE(is_utf8("\xC0\x80"));          // overlong
  EXPECT_FALSE(is_utf8("\xED\xA0\x80"));      // surrogate
  EXPECT_FALSE(is_utf8("\xF4\x90\x80\x80"));  // above U+10FFFF
  EXPECT_EQ("a\xEF\xBF\xBDz", to_valid_utf8("a\xffz"));
}

TEST(Strings, Numbers) {
  EXPECT_EQ(42U, parse_u64("42"));
  EXPECT_FALSE(parse_u64("-1"));
  EXPECT_FALSE(parse_u64("4x"));
  EXPECT_EQ(-7, parse_i64("-7"));
}

TEST(Clock, FormatsMilliseconds) {
  EXPECT_EQ("1970-01-01T00:00:01.234Z", format_unix_millis(1234));
  EXPECT_EQ("1969-12-31T23:59:59.999Z", format_unix_millis(-1));
}

TEST(Error, TableMapsCodes) {
  EXPECT_EQ("not_found", code_name(Code::kNotFound));
  EXPECT_EQ(404, code_http_status(Code::kNotFound));
  EXPECT_EQ(Code::kNotFound, errno_error("x", ENOENT).code);
  EXPECT_EQ("x: No such file or directory", errno_error("x", ENOENT).message);
  EXPECT_EQ("outer: inner", Error{.message = "inner"}.note("outer").message);
}

TEST(Random, LabelsAreDnsSafe) {
  for (int i = 0; i < 200; ++i) {
    const auto label = random_label(12);
    EXPECT_EQ(12U, label.size());
    EXPECT_TRUE(label[0] >= 'a' && label[0] <= 'z') << label;
    EXPECT_EQ(std::string::npos, label.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789"));
  }
  EXPECT_NE(random_hex(40), random_hex(40));
}

TEST(Random, Sha256KnownAnswer) {
  EXPECT_EQ("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", hex(sha256("abc")));
}

TEST(Metrics, RendersPrometheusText) {
  Metrics metrics;
  metrics.counter("atoll_x_total", "Things.", "code=\"a\"").add(2);
  metrics.counter("atoll_x_total", "Things.", "code=\"a\"").add(1);
  metrics.gauge("atoll_y", "Level.").set(-4);
  metrics.histogram("atoll_z_seconds", "Time.").observe_seconds(0.004);
  const auto text = metrics.render();
  EXPECT_NE(std::string::npos, text.find("atoll_x_total{code=\"a\"} 3\n"));
  EXPECT_NE(std::string::npos, text.find("atoll_y -4\n"));
  EXPECT_NE(std::string::npos, text.find("atoll_z_seconds_bucket{le=\"0.002\"} 0\n"));
  EXPECT_NE(std::string::npos, text.find("atoll_z_seconds_bucket{le=\"0.005\"} 1\n"));
  EXPECT_NE(std::string::npos, text.find("atoll_z_seconds_count 1\n"));
}

TEST(Log, SecretsAreNeverPrinted) {
  testing::internal::CaptureStderr();
  log_configure(LogLevel::kInfo, LogFormat::kJson, "test");
  LOG_INFO("login", {"key", Secret{"hunter2"}}, {"n", 3}, {"text", "a\"b\n"});
  log_configure(LogLevel::kInfo, LogFormat::kText, "test");
  const auto line = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::string::npos, line.find("hunter2"));
  EXPECT_NE(std::string::npos, line.find(R"("key":"***","n":3,"text":"a\"b\n")"));
}

TEST(Clock, ReadsTimesToTheLetter) {
  EXPECT_EQ(parse_rfc3339("1970-01-01T00:00:01Z"), 1000);
  EXPECT_EQ(parse_rfc3339("2026-11-15T08:22:51.123456789Z"), 1794730971123);
  EXPECT_EQ(parse_rfc3339("1970-01-01T02:00:00+02:00"), 0);
  for (const auto* bad : {"", "2026", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z",
                          "2026-01-01T25:00:00Z", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z"}) {
    EXPECT_EQ(parse_rfc3339(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace atl
