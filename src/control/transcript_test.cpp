#include "control/transcript.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "control/languages.h"

namespace atl::control {
namespace {

class TranscriptTest : public testing::Test {
 protected:
  void out(std::string_view bytes, guest::Stream stream = guest::Stream::kStdout) {
    transcript_.add({{stream, offset_}, bytes});
    offset_ += bytes.size();
  }
  void say(std::string_view line) { out(concat(line, "\n"), guest::Stream::kChannel); }

  CaptureBudget budget_;
  Transcript transcript_{budget_, "a1"};
  std::uint64_t offset_ = 0;
};

TEST_F(TranscriptTest, SortsStreamsResultsAndTheEnd) {
  out("one\n");
  out("bad\n", guest::Stream::kStderr);
  say(R"({"op":"display","id":"a1","data":{"text/plain":"x","image/png":"iVBO"}})");
  out("two\n");
  say(R"({"op":"result","id":"a1","data":{"text/plain":"42","application/json":{"a":[1]}}})");
  EXPECT_FALSE(transcript_.done());
  say(R"({"op":"done","id":"a1","status":"ok"})");
  ASSERT_TRUE(transcript_.done());
  out("after the end\n");
  const auto result = transcript_.take();
  EXPECT_EQ(result.standard_output, "one\ntwo\n");
  EXPECT_EQ(result.standard_error, "bad\n");
  EXPECT_EQ(result.combined, "one\nbad\ntwo\n");
  EXPECT_EQ(result.outcome, Outcome::kCompleted);
  EXPECT_EQ(result.status, ExecutionStatus::kOk);
  ASSERT_EQ(result.results.size(), 2U);
  EXPECT_FALSE(result.results[0].is_main);
  EXPECT_TRUE(result.results[1].is_main);
  EXPECT_FALSE(result.truncated);
}

TEST_F(TranscriptTest, KeepsTheErrorAndTheExitCode) {
  say(R"({"op":"error","id":"a1","name":"E","value":"v","traceback":"t"})");
  say(R"({"op":"done","id":"a1","status":"error","exit_code":7})");
  const auto result = transcript_.take();
  ASSERT_TRUE(result.error.has_value());
  EXPECT_EQ(result.error->name, "E");
  EXPECT_EQ(result.exit_code, 7U);
  EXPECT_EQ(result.status, ExecutionStatus::kError);
}

TEST_F(TranscriptTest, LinesMayComeInPieces) {
  out("{\"op\":\"do", guest::Stream::kChannel);
  out("ne\",\"id\":\"a1\",", guest::Stream::kChannel);
  EXPECT_FALSE(transcript_.done());
  out("\"status\":\"interrupted\"}\n{", guest::Stream::kChannel);
  ASSERT_TRUE(transcript_.done());
  EXPECT_EQ(transcript_.take().status, ExecutionStatus::kInterrupted);
}

TEST_F(TranscriptTest, PassesOverWhatIsNoMessage) {
  for (const char* line :
       {"", "garbage", "[]", "17", "{}", R"({"op":7,"id":"a1"})", R"({"op":"dance","id":"a1"})",
        R"({"op":"result","id":"zz","data":{"text/plain":"no"}})",
        R"({"op":"result","id":"a1","data":{"text/plain":7}})",
        R"({"op":"result","id":"a1","data":{}})", R"({"op":"result","id":"a1"})",
        R"({"op":"result","id":"a1","data":{"nomime":"x"}})", R"({"op":"done"})",
        R"({"op":"done","op":"done","id":"a1"})", "\xff\xfe\x00"}) {
    say(line);
  }
  EXPECT_FALSE(transcript_.done());
  EXPECT_TRUE(transcript_.take().results.empty());
}

TEST_F(TranscriptTest, TheEndOfAnotherExecutionIsNotOurs) {
  out("of ours\n");
  say(R"({"op":"done","id":"earlier","status":"interrupted"})");
  EXPECT_FALSE(transcript_.done());
  out("ours too\n");
  say(R"({"op":"done","id":"a1","status":"ok"})");
  EXPECT_EQ(transcript_.end_offset(), offset_);
  EXPECT_EQ(transcript_.take().combined, "of ours\nours too\n");
}

TEST_F(TranscriptTest, ResultsAreBounded) {
  const std::string big(15U << 20, 'x');
  for (int i = 0; i < 6; ++i) {
    say(concat(R"({"op":"display","id":"a1","data":{"text/plain":")", big, "\"}}"));
  }
  say(R"({"op":"done","id":"a1","status":"ok"})");
  const auto result = transcript_.take();
  EXPECT_EQ(result.results.size(), 4U);
  EXPECT_TRUE(result.truncated);
}

// Counted is what they take here, not what was sent.
TEST_F(TranscriptTest, ResultsOfManySmallPartsAreBoundedToo) {
  std::string numbers = "0";
  while (numbers.size() < 2U << 20) {
    numbers += ",0";
  }
  for (int i = 0; i < 4; ++i) {
    say(concat(R"({"op":"display","id":"a1","data":{"application/json":[)", numbers, "]}}"));
  }
  EXPECT_LE(budget_.used_bytes, kMaxResultBytes);
  const auto result = transcript_.take();
  EXPECT_EQ(result.results.size(), 1U);
  EXPECT_TRUE(result.truncated);
}

TEST_F(TranscriptTest, BundlesOfTooManyTypesAreNoResults) {
  Json bundle = Json::object();
  for (int i = 0; i < 33; ++i) {
    bundle.set(concat("application/x-", i), "x");
  }
  say(Json::object({{"op", "display"}, {"id", "a1"}, {"data", bundle}}).dump());
  bundle.as_object()->pop_back();
  say(Json::object({{"op", "display"}, {"id", "a1"}, {"data", bundle}}).dump());
  bundle.as_object()->back().first = "type/" + std::string(128, 'x');
  say(Json::object({{"op", "display"}, {"id", "a1"}, {"data", bundle}}).dump());
  EXPECT_EQ(transcript_.take().results.size(), 1U);
}

TEST_F(TranscriptTest, ResultsCanBeTakenAsTheyCome) {
  say(R"({"op":"display","id":"a1","data":{"text/plain":"first"}})");
  ASSERT_EQ(transcript_.take_results().size(), 1U);
  EXPECT_TRUE(transcript_.take_results().empty());
  say(R"({"op":"result","id":"a1","data":{"application/vnd.x+json":{"a":[1]}}})");
  const auto taken = transcript_.take_results();
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_TRUE(taken[0].is_main);
  EXPECT_EQ(budget_.used_bytes, 0U);
  say(R"({"op":"done","id":"a1","status":"ok","count":12})");
  const auto result = transcript_.take();
  EXPECT_TRUE(result.results.empty());
  EXPECT_EQ(result.execution_count, 12U);
}

TEST_F(TranscriptTest, AnInterpreterThatDiesEndsTheExecution) {
  out("last words\n");
  transcript_.end_by({.exited = false, .signal = 9});
  ASSERT_TRUE(transcript_.done());
  const auto result = transcript_.take();
  EXPECT_EQ(result.outcome, Outcome::kKilled);
  EXPECT_EQ(result.signal, 9U);
  EXPECT_FALSE(result.running);
  EXPECT_EQ(result.standard_output, "last words\n");
}

TEST(CaptureBudgetOfResults, IsGivenBack) {
  CaptureBudget budget;
  {
    Transcript transcript{budget, "a"};
    transcript.add({{guest::Stream::kChannel, 0},
                    "{\"op\":\"display\",\"id\":\"a\",\"data\":{\"text/plain\":\"x\"}}\n"});
    EXPECT_GT(budget.used_bytes, 0U);
  }
  EXPECT_EQ(budget.used_bytes, 0U);
}

TEST(ChannelLinesTest, SkipsALineThatIsTooLong) {
  ChannelLines lines{8};
  lines.append("12345678901");
  lines.append("2345\nok\n123456789\nfine\n");
  std::vector<std::string> all;
  while (auto line = lines.next()) {
    all.push_back(*line);
  }
  EXPECT_EQ(all, (std::vector<std::string>{"ok", "", "fine"}));
  EXPECT_TRUE(lines.skipped());
}

TEST(LanguagesTest, AreReadBackFromAProcess) {
  for (const char* alias : {"python", "python3", "node", "javascript", "typescript", "bash"}) {
    const auto language = find_language(alias);
    ASSERT_TRUE(language) << alias;
    guest::ProcessInfo process{.argv = interpreter_command(*language), .has_channel = true};
    ASSERT_TRUE(language_of(process));
    EXPECT_EQ(language_of(process)->alias, alias);
    process.has_channel = false;
    EXPECT_FALSE(language_of(process));
  }
  EXPECT_FALSE(find_language("ruby"));
}

}  // namespace
}  // namespace atl::control
