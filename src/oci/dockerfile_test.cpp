#include "oci/dockerfile.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "oci/ignore.h"
#include "oci/words.h"

namespace atl::oci {
namespace {

Dockerfile parse(std::string_view text) {
  auto file = parse_dockerfile(text);
  EXPECT_TRUE(file) << file.error().message;
  return file ? *std::move(file) : Dockerfile{};
}

TEST(Dockerfile, StagesAndInstructions) {
  const auto file = parse(
      "# a comment\n"
      "ARG VERSION=1\n"
      "from debian:${VERSION} as Build\n"
      "RUN make \\\n"
      "    # in between\n"
      "\n"
      "    install\n"
      "COPY --chown=1:2 --from=x a b /c/\n"
      "FROM scratch\n"
      "CMD [\"a\", \"b c\"]\n"
      "ENTRYPOINT run it\n");
  ASSERT_EQ(file.global_arguments.size(), 1U);
  ASSERT_EQ(file.stages.size(), 2U);
  const Stage& build = file.stages[0];
  EXPECT_EQ(build.base, "debian:${VERSION}");
  EXPECT_EQ(build.name, "build");
  EXPECT_EQ(build.line, 3);
  ASSERT_EQ(build.instructions.size(), 2U);
  EXPECT_EQ(build.instructions[0].line, 4);
  EXPECT_EQ(build.instructions[0].text, "make     install");
  EXPECT_EQ(build.instructions[1].line, 8);
  EXPECT_EQ(build.instructions[1].flags.at("chown"), "1:2");
  EXPECT_EQ(build.instructions[1].flags.at("from"), "x");
  EXPECT_EQ(build.instructions[1].words, (std::vector<std::string>{"a", "b", "/c/"}));
  const auto& last = file.stages[1].instructions;
  EXPECT_TRUE(last[0].exec_form);
  EXPECT_EQ(last[0].words, (std::vector<std::string>{"a", "b c"}));
  EXPECT_FALSE(last[1].exec_form);
  EXPECT_EQ(last[1].text, "run it");
}

TEST(Dockerfile, EscapeDirectiveAndWindowsLines) {
  const auto file = parse("# escape=`\r\nFROM a\r\nRUN one `\r\n two\r\nCOPY C:\\x /y\r\n");
  EXPECT_EQ(file.escape, '`');
  EXPECT_EQ(file.stages[0].instructions[0].text, "one  two");
  EXPECT_EQ(file.stages[0].instructions[1].words[0], "C:\\x");
}

TEST(Dockerfile, Heredocs) {
  const auto file = parse(
      "FROM a\n"
      "RUN <<EOF\n"
      "echo one\n"
      "# not a comment\n"
      "EOF\n"
      "COPY <<-'A' <<B /dest/\n"
      "\t$x\n"
      "A\n"
      "b\n"
      "B\n"
      "RUN cat <<< text && echo '<<EOF'\n");
  const auto& list = file.stages[0].instructions;
  ASSERT_EQ(list.size(), 3U);
  ASSERT_EQ(list[0].heredocs.size(), 1U);
  EXPECT_EQ(list[0].heredocs[0].content, "echo one\n# not a comment\n");
  ASSERT_EQ(list[1].heredocs.size(), 2U);
  EXPECT_EQ(list[1].heredocs[0].content, "$x\n");
  EXPECT_FALSE(list[1].heredocs[0].expand);
  EXPECT_TRUE(list[1].heredocs[1].expand);
  EXPECT_TRUE(list[2].heredocs.empty());
}

struct BadFile {
  const char* text;
  const char* said;
};
class BadDockerfile : public ::testing::TestWithParam<BadFile> {};
TEST_P(BadDockerfile, IsRefusedWithLineAndReason) {
  const auto file = parse_dockerfile(GetParam().text);
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find(GetParam().said), std::string::npos) << file.error().message;
}
INSTANTIATE_TEST_SUITE_P(
    Table, BadDockerfile,
    ::testing::Values(
        BadFile{"", "no FROM"}, BadFile{"# only a comment\n", "no FROM"},
        BadFile{"RUN x\n", "Dockerfile:1: RUN before the first FROM"},
        BadFile{"FROM a\n\nRUNN x\n", "Dockerfile:3: there is no instruction \"RUNN\""},
        BadFile{"FROM a b\n", "Dockerfile:1: write FROM"},
        BadFile{"FROM a as b c\n", "Dockerfile:1: write FROM"},
        BadFile{"FROM a as !\n", "no name for a stage"},
        BadFile{"FROM --foo=1 a\n", "FROM has no flag --foo"},
        BadFile{"FROM a\nCOPY x\n", "Dockerfile:2: COPY needs at least one source"},
        BadFile{"FROM a\nCOPY --mount=x a b\n", "COPY has no flag --mount"},
        BadFile{"FROM a\nADD --from=x a b\n", "ADD has no flag --from"},
        BadFile{"FROM a\nRUN\n", "Dockerfile:2: RUN needs a value"},
        BadFile{"FROM a\nRUN --network=host x\n", "--build-network"},
        BadFile{"FROM a\nRUN --security=insecure x\n", "always runs in a sandbox"},
        BadFile{"FROM a\nRUN --mount=type=cache,target=/x y\n", "RUN has no flag --mount"},
        BadFile{"FROM a\nWORKDIR a b\n", "WORKDIR takes one value"},
        BadFile{"FROM a\nSHELL sh\n", "SHELL takes a JSON list"},
        BadFile{"FROM a\nONBUILD RUN x\n", "ONBUILD is not supported"},
        BadFile{"FROM a\nENV 'x\n", "is not closed"},
        BadFile{"FROM a\nRUN <<EOF\nx\n", "the end of <<EOF is missing"},
        BadFile{"FROM a\nRUN \xff\n", "not UTF-8"}));

TEST(Words, SplitKeepsQuotesTogether) {
  EXPECT_EQ(*split_words("a \"b c\" 'd e'f g\\ h", '\\'),
            (std::vector<std::string>{"a", "\"b c\"", "'d e'f", "g\\ h"}));
  EXPECT_FALSE(split_words("\"a", '\\'));
}

TEST(Words, Substitution) {
  const Lookup lookup = [](std::string_view name) -> std::optional<std::string> {
    if (name == "X") {
      return "value";
    }
    if (name == "EMPTY") {
      return "";
    }
    return std::nullopt;
  };
  const auto expand = [&](std::string_view text) {
    const auto out = expand_word(text, lookup, '\\');
    return out ? *out : concat("error: ", out.error().message);
  };
  EXPECT_EQ(expand("a$X-${X}b"), "avalue-valueb");
  EXPECT_EQ(expand("$UNSET$"), "$");
  EXPECT_EQ(expand("${UNSET:-d} ${EMPTY:-d} ${EMPTY-d}"), "d d ");
  EXPECT_EQ(expand("${X:+y}${UNSET:+y}${EMPTY+z}"), "yz");
  EXPECT_EQ(expand("${UNSET:-${X}/$X}"), "value/value");
  EXPECT_EQ(expand("'$X' \"$X\" \\$X"), "$X value $X");
  EXPECT_EQ(expand("\"a\\\"b\\nc\""), "a\"b\\nc");
  EXPECT_EQ(expand("${UNSET:?is needed}"), "error: UNSET: is needed");
  EXPECT_EQ(expand("${X"), "error: a ${ is not closed");
  EXPECT_NE(expand("${X%a}").find("not a known form"), std::string::npos);
}

TEST(Patterns, Paths) {
  EXPECT_TRUE(matches_path("*.c", "a.c"));
  EXPECT_FALSE(matches_path("*.c", "d/a.c"));
  EXPECT_TRUE(matches_path("**/*.c", "a.c"));
  EXPECT_TRUE(matches_path("**/*.c", "x/y/a.c"));
  EXPECT_TRUE(matches_path("a/**/b", "a/b"));
  EXPECT_TRUE(matches_path("a/**/b", "a/x/y/b"));
  EXPECT_FALSE(matches_path("a/**/b", "a/x/y/c"));
  EXPECT_TRUE(matches_path("[a-c]?x", "b1x"));
  EXPECT_FALSE(matches_path("[!a-c]?x", "b1x"));
  EXPECT_TRUE(matches_path("a\\*", "a*"));
  const std::string long_text(2000, 'a');
  EXPECT_FALSE(matches_path("*a*a*a*a*a*a*a*a*a*a*a*b", long_text)) << "and that quickly";
}

TEST(Patterns, IgnoreFile) {
  const auto rules =
      IgnoreRules::parse("# comment\nnode_modules\n*.log\n!keep.log\n/build/\n**/x\n");
  ASSERT_TRUE(rules);
  EXPECT_TRUE(rules->ignores("node_modules"));
  EXPECT_TRUE(rules->ignores("node_modules/a/b"));
  EXPECT_FALSE(rules->ignores("src/node_modules"));
  EXPECT_TRUE(rules->ignores("a.log"));
  EXPECT_FALSE(rules->ignores("keep.log"));
  EXPECT_TRUE(rules->ignores("build/o"));
  EXPECT_TRUE(rules->ignores("p/q/x/deep"));
  EXPECT_FALSE(rules->ignores("src/main.c"));
}

}  // namespace
}  // namespace atl::oci
