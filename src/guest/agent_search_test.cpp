// Searches, as a client sees them.
#include "guest/agent_fixture.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

class AgentSearch : public AgentTest {
 protected:
  void make(const std::string& name) { std::filesystem::create_directories(path(name)); }

  struct Found {
    std::vector<Match> matches;
    SearchEnd end;
    std::string outcome;
    std::vector<std::string> lines() const {
      std::vector<std::string> all;
      for (const Match& match : matches) {
        all.push_back(std::filesystem::path{match.path}.filename().string() + ":" +
                      std::to_string(match.line_number) + ":" + match.line_text);
      }
      std::sort(all.begin(), all.end());
      return all;
    }
  };
  Found search(const SearchRequest& request) {
    Found found;
    const auto frames = ask(Kind::kSearch, encode(request));
    for (const auto& frame : frames) {
      if (frame.kind == Kind::kMatch) {
        found.matches.push_back(decode_match(frame.payload).value());
      } else if (frame.kind == Kind::kEnd) {
        found.end = decode_search_end(frame.payload).value();
      }
    }
    found.outcome = outcome(frames);
    return found;
  }
};

TEST_F(AgentSearch, IncludedAndExcludedNames) {
  make("s/node_modules/x");
  put(path("s/a.py"), "hit");
  put(path("s/b.ts"), "hit");
  put(path("s/c.md"), "hit");
  put(path("s/node_modules/x/d.py"), "hit");
  const auto found = search({.path = path("s"),
                             .content_regex = "hit",
                             .included = {"**/*.py", "**/*.ts"},
                             .excluded = {"**/node_modules", "b*"}});
  EXPECT_EQ(found.lines(), (std::vector<std::string>{"a.py:1:hit"}));
}

TEST_F(AgentSearch, LinesAroundAMatchComeOnce) {
  put(path("f"), "1\n2\nhit3\n4\nhit5\n6\n7\n8\n9\nhit10\n");
  const auto found = search({.path = path("f"), .content_regex = "hit", .context_lines = 1});
  std::vector<std::string> lines;
  for (const Match& match : found.matches) {
    lines.push_back((match.context ? "-" : ":") + match.line_text);
    EXPECT_EQ(match.context, !match.line_text.starts_with("hit"));
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"-2", ":hit3", "-4", ":hit5", "-6", "-9", ":hit10"}));
  EXPECT_EQ(
      search({.path = path("f"), .content_regex = "hit", .max_results = 1, .context_lines = 1})
          .matches.size(),
      3U);
}

TEST_F(AgentSearch, SearchByName) {
  make("s/a/b");
  put(path("s/x.py"), "1");
  put(path("s/a/y.py"), "22");
  put(path("s/a/b/z.PY"), "333");
  ASSERT_EQ(::symlink("a", path("s/loop").c_str()), 0);
  auto found = search({.path = path("s"), .name_glob = "**/*.py"});
  EXPECT_EQ(found.outcome, "end");
  EXPECT_EQ(found.lines(), (std::vector<std::string>{"x.py:0:", "y.py:0:"}));
  EXPECT_FALSE(found.end.truncated);
  found = search({.path = path("s"), .name_glob = "**/*.py", .ignore_case = true});
  EXPECT_EQ(found.matches.size(), 3U);
  found = search({.path = path("s"), .name_glob = "a/y*"});
  ASSERT_EQ(found.matches.size(), 1U);
  EXPECT_EQ(found.matches[0].path, path("s/a/y.py"));
  EXPECT_EQ(found.matches[0].size, 2U);
  EXPECT_EQ(found.matches[0].type, FileType::kFile);
  EXPECT_EQ(search({.path = path("s")}).matches.size(), 6U);  // not through the symlink
  found = search({.path = path("s"), .max_results = 6});
  EXPECT_FALSE(found.end.truncated);
  found = search({.path = path("s"), .max_results = 5});
  EXPECT_EQ(found.matches.size(), 5U);
  EXPECT_TRUE(found.end.truncated);
  EXPECT_EQ(search({.path = path("none")}).outcome, "file_not_found");
  EXPECT_EQ(search({.path = path("s/x.py")}).matches.at(0).path, path("s/x.py"));
}

TEST_F(AgentSearch, SearchByContent) {
  make("s");
  put(path("s/text"), "one\ntwo\r\n\nthree two");
  put(path("s/other.md"), "TWO\n");
  put(path("s/binary"), std::string("two\n\0", 5));
  put(path("s/late"), std::string(9000, 'x') + std::string("\n\0two\n", 6));
  put(path("s/long"), std::string(70000, 'a') + "two" + std::string(70000, 'b') + "\ntwo");
  put(path("s/big"), std::string(300000, 'c') + "two");
  put(path("s/utf"), "zw\xc3\xb6lf \xff two\n");
  auto found = search({.path = path("s"), .content_regex = "t(w|x)o$", .max_file_bytes = 200000});
  EXPECT_EQ(found.outcome, "end");
  EXPECT_EQ(found.lines(),
            (std::vector<std::string>{"late:2:" + std::string("\0two", 4), "long:2:two",
                                      "text:4:three two", "utf:1:zw\xc3\xb6lf \xff two"}));
  EXPECT_EQ(found.end.skipped_files, 1U);
  found = search({.path = path("s/text"), .content_regex = "two"});
  EXPECT_EQ(found.lines(), (std::vector<std::string>{"text:2:two\r", "text:4:three two"}));
  found = search({.path = path("s"), .name_glob = "*.md", .content_regex = "two"});
  EXPECT_TRUE(found.matches.empty());
  found =
      search({.path = path("s"), .name_glob = "*.md", .content_regex = "two", .ignore_case = true});
  EXPECT_EQ(found.lines(), (std::vector<std::string>{"other.md:1:TWO"}));
  found = search({.path = path("s/long"), .content_regex = "two"});
  ASSERT_EQ(found.matches.size(), 2U);
  EXPECT_EQ(found.matches[0].line_text, std::string(kMaxLineBytes, 'a'));
  found = search({.path = path("s/text"), .content_regex = "^$"});
  EXPECT_EQ(found.lines(), (std::vector<std::string>{"text:3:"}));
  found = search({.path = path("s"), .content_regex = ".", .max_results = 2});
  EXPECT_EQ(found.matches.size(), 2U);
  EXPECT_TRUE(found.end.truncated);
}

TEST_F(AgentSearch, BadExpressionsAreRefused) {
  make("s");
  put(path("s/f"), "aaa\n");
  EXPECT_EQ(search({.path = path("s"), .content_regex = "(a"}).outcome, "bad_regex");
  EXPECT_EQ(search({.path = path("s"), .content_regex = "[a"}).outcome, "bad_regex");
  const std::string nested = std::string(2000, '(') + "a" + std::string(2000, ')');
  EXPECT_EQ(search({.path = path("s"), .content_regex = nested}).matches.size(), 1U);
#if !__has_feature(address_sanitizer)  // which ends the worker when memory runs out
  EXPECT_EQ(
      search({.path = path("s"), .content_regex = "((((a{1,255}){1,255}){1,255}){1,255})"}).outcome,
      "regex_too_complex");
#endif
}

TEST_F(AgentSearch, SearchObeysPermissions) {
  make("s/closed");
  put(path("s/open"), "needle\n");
  put(path("s/secret"), "needle\n");
  put(path("s/closed/f"), "needle\n");
  ASSERT_EQ(::chmod(path("s/secret").c_str(), 0600), 0);
  ASSERT_EQ(::chmod(path("s/closed").c_str(), 0700), 0);
  const auto found = search({.path = path("s"), .user = "nobody", .content_regex = "needle"});
  EXPECT_EQ(found.lines(), (std::vector<std::string>{"open:1:needle"}));
  EXPECT_EQ(found.end.skipped_files, 2U);
  EXPECT_EQ(search({.path = path("s"), .content_regex = "needle"}).matches.size(), 3U);
}

TEST_F(AgentSearch, ASearchEndsWithItsClient) {
  make("s");
  // Back-references make matching exponential: this one does not end by itself.
  put(path("s/f"), std::string(2000, 'a') + "\n");
  SearchRequest request{.path = path("s")};
  request.content_regex = "(a*)*(a*)*(a*)*(a*)*\\1\\2\\3\\4b";
  {
    TestClient client = connect();
    client.send(Kind::kSearch, encode(request));
    EXPECT_TRUE(client.silent(500));
    EXPECT_GT(children(), 0U);
  }
  for (int i = 0; i < 6000 && children() > 0; ++i) {
    ::usleep(10000);
  }
  EXPECT_EQ(children(), 0U);
}

TEST_F(AgentSearch, KernelFilesystemsAreLeftOut) {
  make("t/proc");
  make("t/other");
  const SmallMount kernel{path("t/proc"), nullptr, "proc"};
  const SmallMount other{path("t/other"), nullptr};
  ASSERT_TRUE(kernel.mounted() && other.mounted());
  put(path("t/other/f"), "x");
  EXPECT_EQ(search({.path = path("t")}).matches.size(), 3U);
  // But asked for directly it is searched like any other.
  EXPECT_EQ(search({.path = path("t/proc/version"), .content_regex = "Linux"}).matches.size(), 1U);
}

TEST_F(AgentSearch, WhatIsTooDeepIsCounted) {
  std::string deep = path("t");
  for (std::size_t i = 0; i <= kMaxTreeDepth; ++i) {
    deep += "/d";
  }
  std::filesystem::create_directories(deep);
  const auto found = search({.path = path("t")});
  EXPECT_EQ(found.matches.size(), kMaxTreeDepth);
  EXPECT_EQ(found.end.skipped_files, 1U);
}

TEST_F(AgentSearch, EndlessLinesAreSkippedNotHeld) {
  make("s");
  put(path("s/endless"), "needle\n" + std::string(kMaxSearchLineBytes + 200000, 'x') + "needle");
  put(path("s/small"), "needle");
  const auto found = search({.path = path("s"), .content_regex = "needle", .ignore_case = true});
  EXPECT_EQ(found.lines(), (std::vector<std::string>{"endless:1:needle", "small:1:needle"}));
  EXPECT_EQ(found.end.skipped_files, 1U);
}

}  // namespace
}  // namespace atl::guest
