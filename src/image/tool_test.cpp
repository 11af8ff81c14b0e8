#include "image/tool.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdlib>

#include "base/fd.h"
#include "image/temporary_directory.h"

namespace atl::image {
namespace {

std::vector<std::string> lines_of(std::vector<std::string> argv,
                                  std::vector<std::string> environment = {}) {
  std::vector<std::string> lines;
  const auto ran = run_tool({.argv = std::move(argv),
                             .environment = std::move(environment),
                             .on_line = [&](std::string_view line) { lines.emplace_back(line); }});
  EXPECT_TRUE(ran) << ran.error().message;
  return lines;
}

TEST(Tool, LinesAndRemainder) {
  EXPECT_EQ(lines_of({"printf", "a\nb\r\nlast"}), (std::vector<std::string>{"a", "b", "last"}));
}

TEST(Tool, ArgumentsAreNotInterpreted) {
  EXPECT_EQ(lines_of({"printf", "%s", "$(id) `id` ; * | >x"}),
            std::vector<std::string>{"$(id) `id` ; * | >x"});
}

TEST(Tool, EnvironmentIsClean) {
  ::setenv("ATOLL_TEST_SECRET", "secret", 1);
  const auto lines = lines_of({"env"}, {"GIVEN=yes"});
  ::unsetenv("ATOLL_TEST_SECRET");
  EXPECT_EQ(std::ranges::count_if(lines, [](auto& l) { return l.starts_with("ATOLL_TEST"); }), 0);
  EXPECT_EQ(std::ranges::count(lines, "GIVEN=yes"), 1);
}

TEST(Tool, NoDescriptorLeaks) {
  // One that somebody forgot to mark close-on-exec.
  const Fd leaky{::open("/dev/null", O_RDONLY)};
  const auto lines = lines_of({"ls", "/proc/self/fd"});
  EXPECT_EQ(lines, (std::vector<std::string>{"0", "1", "2", "3"})) << "3 is ls's own";
}

TEST(Tool, FailureEndsWithItsLastWords) {
  const auto ran =
      run_tool({.argv = {"sh", "-c", "echo early >&2; echo out; echo the cause >&2; exit 7"}});
  ASSERT_FALSE(ran);
  EXPECT_NE(ran.error().message.find("sh failed with exit status 7"), std::string::npos);
  EXPECT_TRUE(ran.error().message.ends_with("the cause")) << ran.error().message;
}

TEST(Tool, OnlyTheTailIsKeptAndItIsPrintable) {
  const auto ran = run_tool(
      {.argv = {
           "sh", "-c",
           "for i in $(seq 1000); do echo line $i >&2; done; printf '\\033[31mred' >&2; exit 1"}});
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message.find("line 1 "), std::string::npos);
  EXPECT_NE(ran.error().message.find("line 1000"), std::string::npos);
  EXPECT_EQ(ran.error().message.find('\033'), std::string::npos);
}

TEST(Tool, LongLinesAreCut) {
  const auto lines = lines_of({"head", "-c", "1000000", "/dev/zero"});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].size(), kToolLineBytes);
}

TEST(Tool, SignalIsNamed) {
  const auto ran = run_tool({.argv = {"sh", "-c", "kill -9 $$"}});
  ASSERT_FALSE(ran);
  EXPECT_NE(ran.error().message.find("killed by signal 9"), std::string::npos);
}

TEST(Tool, MissingToolSaysSo) {
  const auto ran = run_tool({.argv = {"atoll-no-such-tool"}});
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, Code::kNotFound);
  EXPECT_NE(ran.error().message.find("atoll-no-such-tool"), std::string::npos);
}

}  // namespace
}  // namespace atl::image
