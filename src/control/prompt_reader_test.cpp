#include "control/prompt_reader.h"

#include <gtest/gtest.h>

#include "control/limits.h"

namespace atl::control {
namespace {

struct Read {
  std::string text;
  std::size_t prompts;
  bool at_prompt;
  bool wants_more;
};

// In pieces of `size` bytes: where a piece ends must not matter.
Read read(Ready ready, const std::string& token, std::string_view output, std::size_t size) {
  PromptReader reader{ready, token};
  std::string text;
  for (std::size_t i = 0; i < output.size(); i += size) {
    text += reader.add(output.substr(i, size));
  }
  const Read result{{}, reader.prompts(), reader.at_prompt(), reader.wants_more()};
  text += reader.finish();
  return {std::move(text), result.prompts, result.at_prompt, result.wants_more};
}

class PromptReaderTest : public testing::TestWithParam<std::size_t> {
 protected:
  static Read marked(std::string_view output) {
    return read(Ready::kPrompts, "_S0_12", output, GetParam());
  }
  static Read token(std::string_view output) {
    return read(Ready::kToken, ">>> ", output, GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(Pieces, PromptReaderTest, testing::Values(1, 2, 3, 5, 1000));

TEST_P(PromptReaderTest, PromptsOfOursAreTakenOut) {
  const auto got = marked("one\n_S0_12> no newline_S0_12> ");
  EXPECT_EQ(got.text, "one\nno newline");
  EXPECT_EQ(got.prompts, 2U);
  EXPECT_TRUE(got.at_prompt);
  EXPECT_FALSE(got.wants_more);
}

TEST_P(PromptReaderTest, AnyOtherCharacterAsksForMore) {
  for (const char* output : {"_S0_12+ ", "_S0_12{ "}) {
    const auto got = marked(output);
    EXPECT_EQ(got.text, "");
    EXPECT_TRUE(got.wants_more);
  }
  EXPECT_FALSE(marked("_S0_12+ x\n_S0_12> ").wants_more);
}

TEST_P(PromptReaderTest, WhatOnlyLooksLikeAMarkIsOutput) {
  const auto got = marked("_S0_1_S0_99> _S0_12>x _S0_12");
  EXPECT_EQ(got.text, "_S0_1_S0_99> _S0_12>x _S0_12");
  EXPECT_EQ(got.prompts, 0U);
  EXPECT_FALSE(got.at_prompt);
}

TEST_P(PromptReaderTest, OutputAfterAPromptIsNoPrompt) {
  const auto got = marked("_S0_12> late\n");
  EXPECT_EQ(got.text, "late\n");
  EXPECT_FALSE(got.at_prompt);
  EXPECT_EQ(got.prompts, 1U);
}

TEST_P(PromptReaderTest, ATokenIsAPromptWhereAPromptStands) {
  const auto got = token("a >>> b\n>>> >>> c\nlast>>> ");
  EXPECT_EQ(got.text, "a >>> b\nc\nlast");
  EXPECT_TRUE(got.at_prompt);
}

TEST_P(PromptReaderTest, ATokenThatIsNotTheEndIsOutputAgain) {
  const auto got = token("x>>> y>> ");
  EXPECT_EQ(got.text, "x>>> y>> ");
  EXPECT_FALSE(got.at_prompt);
  EXPECT_EQ(got.prompts, 0U);
}

TEST(PromptReaderSilence, NothingIsHeldBack) {
  EXPECT_EQ(read(Ready::kSilence, "_S0_> ", "_S0_> x", 1).text, "_S0_> x");
}

TEST(ReplDefinitionTest, IsReadBackFromAProcess) {
  for (const char* alias : {"zsh", "ruby", "lua", "lua5.1", "lua5.4", "luajit", "sqlite",
                            "php", "perl", "redis-cli", "swift", "kotlin"}) {
    const auto definition = find_repl(alias);
    ASSERT_TRUE(definition) << alias;
    ASSERT_FALSE(definition->candidates.empty());
    EXPECT_FALSE(definition->package.empty());
    guest::ProcessInfo process{.pty = true, .label = repl_label(*definition)};
    const auto again = repl_of(process);
    ASSERT_TRUE(again) << alias;
    EXPECT_EQ(again->alias, alias);
    EXPECT_EQ(again->token, definition->token);
    EXPECT_EQ(again->ready, definition->ready);
    EXPECT_EQ(again->setup, definition->setup);
    EXPECT_EQ(again->env, definition->env);
    process.pty = false;
    EXPECT_FALSE(repl_of(process));
  }
  EXPECT_NE(find_repl("perl")->token, find_repl("perl")->token);
  EXPECT_FALSE(find_repl("klingon"));
}

TEST(ReplDefinitionTest, ALabelThatLiesIsNoDefinition) {
  const std::string good = repl_label(*find_repl("zsh"));
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(repl_of({.pty = true, .label = good.substr(0, size)})) << size;
  }
  EXPECT_FALSE(repl_of({.pty = true, .label = good + "x"}));
  ReplDefinition slow;
  slow.token = "x";
  slow.quiet_ms = UINT64_MAX;
  EXPECT_FALSE(repl_of({.pty = true, .label = repl_label(slow)}));
  ReplDefinition dear;
  dear.token = std::string(kMaxReplTokenBytes, 'x');
  EXPECT_TRUE(repl_of({.pty = true, .label = repl_label(dear)}));
  dear.token += 'x';  // searched for in everything the sandbox prints
  EXPECT_FALSE(repl_of({.pty = true, .label = repl_label(dear)}));
}

TEST(ReplDefinitionTest, AClientsOwn) {
  ReplConfig config{.name = "mine", .candidates = {{"prog", {}}}};
  auto made = define_repl(config);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->token, "_S0_> ");  // the contract's
  EXPECT_EQ(made->env.at("TERM"), "dumb");
  config.env = {{"PS1", {}, "prompt"}, {"T", {}, "term"}, {"V", "v", {}}};
  config.default_term = "xterm";
  made = define_repl(config);
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->own_token);
  EXPECT_EQ(made->env.at("PS1"), made->token);
  EXPECT_EQ(made->env.at("T"), "xterm");
  EXPECT_EQ(made->env.at("V"), "v");
  config.ready_mode = "startup_delay";
  config.startup_delay_ms = 70;
  made = define_repl(config);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->ready, Ready::kSilence);
  EXPECT_EQ(made->quiet_ms, 70U);
  config.ready_token = "two\nlines";
  EXPECT_FALSE(define_repl(config));
}

}  // namespace
}  // namespace atl::control
