#include "cli/complete.h"

#include <gtest/gtest.h>

#include "cli/help.h"
#include "cli/parse.h"

namespace atl::cli {
namespace {

using Kind = Completion::Kind;
using Words = std::vector<std::string>;

const Environment& environment() {
  static const Environment value{
      .host_checks = {},
      .version = "1",
      .other_commands = {{"serve", "Run the server", "  --listen ADDR:PORT   where it answers\n"}}};
  return value;
}

Words texts(const Completion& completion) {
  Words texts;
  for (const auto& candidate : completion.candidates) {
    texts.push_back(candidate.text);
  }
  return texts;
}

bool offers(const Words& words, const std::string& text) {
  const auto all = texts(complete_words(words, environment()));
  return std::find(all.begin(), all.end(), text) != all.end();
}

Kind kind(const Words& words) {
  return complete_words(words, environment()).kind;
}

TEST(Complete, Commands) {
  EXPECT_TRUE(offers({}, "run"));
  EXPECT_TRUE(offers({""}, "serve"));
  EXPECT_FALSE(offers({""}, "complete"));
  EXPECT_EQ(texts(complete_words({"she"}, environment())), (Words{"shell"}));
  EXPECT_TRUE(offers({"help", "she"}, "shell"));
  EXPECT_TRUE(offers({"-o", "json", "l"}, "ls"));
}

TEST(Complete, OptionsAndTheirValues) {
  EXPECT_TRUE(offers({"run", "--te"}, "--template"));
  EXPECT_TRUE(offers({"run", "-"}, "-e"));
  EXPECT_EQ(texts(complete_words({"ls", "-o", ""}, environment())), (Words{"text", "json"}));
  EXPECT_EQ(texts(complete_words({"ls", "--output=j"}, environment())), (Words{"json"}));
  EXPECT_EQ(texts(complete_words({"ls", "--output", "=", "j"}, environment())), (Words{"json"}));
  EXPECT_EQ(kind({"run", "-t", ""}), Kind::kTemplate);
  EXPECT_EQ(kind({"ls", "--ca-file", ""}), Kind::kFiles);
  EXPECT_EQ(kind({"ls", "--data-dir", "/"}), Kind::kDirectories);
  EXPECT_EQ(kind({"run", "--memory", ""}), Kind::kNothing);
  EXPECT_EQ(texts(complete_words({"serve", "--l"}, environment())), (Words{"--listen"}));
}

TEST(Complete, WhatStandsWhere) {
  EXPECT_EQ(kind({"exec", ""}), Kind::kSandbox);
  EXPECT_EQ(kind({"exec", "-u", "root", ""}), Kind::kSandbox);
  EXPECT_EQ(kind({"exec", "rs-1", ""}), Kind::kFiles);
  EXPECT_EQ(kind({"exec", "rs-1", "--", "-x"}), Kind::kFiles);
  EXPECT_EQ(kind({"rm", "a", "b", ""}), Kind::kSandbox);
  EXPECT_EQ(kind({"inspect", "a", ""}), Kind::kNothing);
  EXPECT_EQ(kind({"cp", "a", ""}), Kind::kSandboxPlace);
  EXPECT_EQ(complete_words({"cp", "rs-1", ":", "/tm"}, environment()).prefix, "rs-1:/tm");
  EXPECT_TRUE(offers({"template", "b"}, "build"));
  EXPECT_EQ(kind({"pause", "a", ""}), Kind::kSandbox);
  EXPECT_EQ(texts(complete_words({"pause", "--memory", ""}, environment())),
            (Words{"keep", "disk", "none"}));
  EXPECT_TRUE(offers({"snapshot", "res"}, "restore"));
  EXPECT_EQ(kind({"snapshot", "create", ""}), Kind::kSandbox);
}

TEST(Complete, ScriptsExist) {
  for (const auto* shell : {"bash", "zsh", "fish"}) {
    EXPECT_NE(completion_script(shell).find("complete -- "), std::string_view::npos) << shell;
  }
}

}  // namespace
}  // namespace atl::cli
