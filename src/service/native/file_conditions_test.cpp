#include "service/native/file_conditions.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "service/native/file_target.h"

namespace atl::service::native {
namespace {

// Tue, 05 May 2020 12:00:00.5 GMT
const guest::FileInfo kFile{.size = 10,
                            .modified_unix_ns = 1'588'680'000'500'000'000,
                            .inode = 255,
                            .changed_unix_ns = 4096};
constexpr const char* kTag = "\"ff-a-1000\"";
constexpr const char* kTime = "Tue, 05 May 2020 12:00:00 GMT";
constexpr const char* kEarlier = "Tue, 05 May 2020 11:59:59 GMT";

TEST(FileConditions, ValidatorsAreStable) {
  EXPECT_EQ(etag_of(kFile), kTag);
  EXPECT_EQ(http_date(kFile.modified_unix_ns), kTime);
  EXPECT_EQ(http_date(INT64_MIN), "Thu, 01 Jan 1970 00:00:00 GMT");
  for (const auto change : {&guest::FileInfo::size, &guest::FileInfo::inode}) {
    guest::FileInfo other = kFile;
    other.*change += 1;
    EXPECT_NE(etag_of(other), kTag);
  }
  guest::FileInfo later = kFile;
  later.changed_unix_ns += 1;
  EXPECT_NE(etag_of(later), kTag);
}

TEST(FileConditions, ThreeFormsOfADate) {
  for (const char* text : {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
                           "Sun Nov  6 08:49:37 1994"}) {
    EXPECT_EQ(parse_http_date(text), 784111777) << text;
  }
  for (const char* text : {"", "yesterday", "Sun, 06 Nov 1994 08:49:37 GMT+1", "784111777"}) {
    EXPECT_EQ(parse_http_date(text), std::nullopt) << text;
  }
}

struct ReadCase {
  http::Headers headers;
  Verdict expected;
};

TEST(FileConditions, Reads) {
  const auto cases = std::to_array<ReadCase>({
      {{}, Verdict::kProceed},
      {{{"If-None-Match", kTag}}, Verdict::kNotModified},
      {{{"If-None-Match", concat("W/", kTag)}}, Verdict::kNotModified},
      {{{"If-None-Match", "*"}}, Verdict::kNotModified},
      {{{"If-None-Match", concat("\"a,b\" , ", kTag)}}, Verdict::kNotModified},
      {{{"If-None-Match", "\"x\""}, {"If-None-Match", kTag}}, Verdict::kNotModified},
      {{{"If-None-Match", "\"x\""}}, Verdict::kProceed},
      {{{"If-None-Match", "ff-a-1000"}}, Verdict::kProceed},  // no quotes, no tag
      {{{"If-None-Match", "\"ff-a-1000"}}, Verdict::kProceed},
      {{{"If-None-Match", "\"x\""}, {"If-Modified-Since", kTime}}, Verdict::kProceed},
      {{{"If-Modified-Since", kTime}}, Verdict::kNotModified},
      {{{"If-Modified-Since", kEarlier}}, Verdict::kProceed},
      {{{"If-Modified-Since", "nonsense"}}, Verdict::kProceed},
      {{{"If-Match", kTag}}, Verdict::kProceed},
      {{{"If-Match", "*"}}, Verdict::kProceed},
      {{{"If-Match", concat("W/", kTag)}}, Verdict::kFailed},  // weak is not strong
      {{{"If-Match", "\"x\""}}, Verdict::kFailed},
      {{{"If-Match", ""}}, Verdict::kFailed},
      {{{"If-Match", kTag}, {"If-None-Match", kTag}}, Verdict::kNotModified},
      {{{"If-Unmodified-Since", kTime}}, Verdict::kProceed},
      {{{"If-Unmodified-Since", kEarlier}}, Verdict::kFailed},
      {{{"If-Match", kTag}, {"If-Unmodified-Since", kEarlier}}, Verdict::kProceed},
  });
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(judge_read(cases[i].headers, kFile), cases[i].expected) << "case " << i;
  }
}

TEST(FileConditions, RangesOfTheRightVersionOnly) {
  EXPECT_TRUE(range_counts({}, kFile));
  EXPECT_TRUE(range_counts({{"If-Range", kTag}}, kFile));
  EXPECT_TRUE(range_counts({{"If-Range", kTime}}, kFile));
  for (const std::string& value : {std::string{kEarlier}, concat("W/", kTag), std::string{"\"x\""},
                                   std::string{"x"}, std::string{}}) {
    EXPECT_FALSE(range_counts({{"If-Range", value}}, kFile)) << value;
  }
}

TEST(FileConditions, Writes) {
  const auto none = std::optional<guest::FileInfo>{};
  const auto there = std::optional{kFile};
  EXPECT_TRUE(judge_write({{"If-None-Match", "*"}}, none).only_new);
  EXPECT_EQ(judge_write({{"If-None-Match", "*"}}, there).verdict, Verdict::kFailed);
  EXPECT_EQ(judge_write({{"If-None-Match", kTag}}, there).verdict, Verdict::kFailed);
  EXPECT_EQ(judge_write({{"If-Match", "*"}}, none).verdict, Verdict::kFailed);
  EXPECT_EQ(judge_write({{"If-Match", kTag}}, none).verdict, Verdict::kFailed);
  EXPECT_EQ(judge_write({{"If-Match", "\"x\""}}, there).verdict, Verdict::kFailed);
  const WriteConditions matched = judge_write({{"If-Match", kTag}}, there);
  EXPECT_EQ(matched.verdict, Verdict::kProceed);
  EXPECT_EQ(matched.only_version, (guest::FileVersion{255, 10, 4096}));
  EXPECT_FALSE(judge_write({{"If-Match", "*"}}, there).only_version);
  EXPECT_EQ(judge_write({{"If-Unmodified-Since", kEarlier}}, there).verdict, Verdict::kFailed);
  EXPECT_EQ(judge_write({{"If-Unmodified-Since", kEarlier}}, none).verdict, Verdict::kProceed);
}

TEST(FileConditions, NothingABrowserWouldRun) {
  EXPECT_EQ(content_type_of("/a/b.PNG"), "image/png");
  for (const char* path : {"/a.json", "/a.svg", "/a.xhtml", "/a.xml", "/a", "/b.png/a", ""}) {
    EXPECT_EQ(content_type_of(path), "application/octet-stream") << path;
  }
  EXPECT_TRUE(content_type_of("/a.html").starts_with("text/plain"));
}

TEST(FileTarget, PathsBecomeAbsoluteAndClean) {
  const control::FileDefaults defaults{.user = "user", .cwd = "/workspace"};
  const std::pair<const char*, const char*> cases[] = {
      {".", "/workspace"},
      {"./", "/workspace/"},
      {"a", "/workspace/a"},
      {"a/", "/workspace/a/"},
      {"a//b/./c", "/workspace/a/b/c"},
      {"../etc", "/etc"},
      {"../../../../x", "/x"},
      {"/", "/"},
      {"//a//", "/a/"},
      {"/..", "/"},
      {"/a/../..", "/"},
      {"a/..", "/workspace"},
      {"...", "/workspace/..."},
      {" ", "/workspace/ "},
  };
  for (const auto& [given, expected] : cases) {
    EXPECT_EQ(absolute_path(given, defaults), expected) << given;
  }
  const control::FileDefaults root{.user = "root", .cwd = "/"};
  EXPECT_EQ(absolute_path("a", root), "/a");
  const auto target = parse_file_target("path=a%2Fb&user=root", defaults);
  ASSERT_TRUE(target);
  EXPECT_EQ(target->requested, "a/b");
  EXPECT_EQ(target->path, "/workspace/a/b");
  EXPECT_EQ(target->user, "root");
  EXPECT_FALSE(parse_file_target("user=root", defaults));
  EXPECT_EQ(parse_file_target("", defaults, ".")->path, "/workspace");
}

}  // namespace
}  // namespace atl::service::native
