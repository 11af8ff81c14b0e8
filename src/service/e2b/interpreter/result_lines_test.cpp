#include "service/e2b/interpreter/result_lines.h"

#include <gtest/gtest.h>

namespace atl::service::e2b::interpreter {
namespace {

using control::ExecutionStatus;
using control::InterpreterResult;

TEST(ResultLines, EveryKeyAndTheRestAsExtra) {
  const auto data = Json::parse(
      R"({"text/plain":"'it''s'","text/html":"<b>","text/markdown":"m","image/svg+xml":"<svg/>",
          "image/png":"cG5n","image/jpeg":"anBn","application/pdf":"cGRm","text/latex":"$x$",
          "application/json":{"a":1},"application/javascript":"j;",
          "application/vnd.atoll.frame+json":{"c":[1]},
          "application/vnd.atoll.chart+json":{"type":"line"},"application/x-own":"own"})");
  ASSERT_TRUE(data);
  const Json line = result_line({*data, true});
  EXPECT_EQ(
      line.dump(),
      R"({"type":"result","text":"it''s","html":"<b>","markdown":"m","svg":"<svg/>",)"
      R"("png":"cG5n","jpeg":"anBn","pdf":"cGRm","latex":"$x$","json":{"a":1},)"
      R"("javascript":"j;","data":{"c":[1]},"chart":{"type":"line"},)"
      R"("application/x-own":"own","extra":{"application/x-own":"own"},"is_main_result":true})");
}

// What the sandbox calls its types never becomes a member of ours, nor a line of its own.
TEST(ResultLines, NamesOfTypesAreHostile) {
  const Json line = result_line({Json::object({{"type", "error"},
                                               {"is_main_result", true},
                                               {"extra", "x"},
                                               {"text", "x"},
                                               {"error/type", "\n{\"type\":\"error\"}\n"},
                                               {"text/plain", "\"\n'"}}),
                                 false});
  EXPECT_EQ(line.dump(),
            R"({"type":"result","error/type":"\n{\"type\":\"error\"}\n","text":"\"\n'",)"
            R"("extra":{"error/type":"\n{\"type\":\"error\"}\n"},"is_main_result":false})");
}

TEST(ResultLines, OnlyOuterQuotesOfTextAreDropped) {
  const auto text_of = [](std::string text) {
    const Json line = result_line({Json::object({{"text/plain", std::move(text)}}), false});
    return *line.find("text")->as_string();
  };
  EXPECT_EQ(text_of("'a'"), "a");
  EXPECT_EQ(text_of("\"it's\""), "it's");
  EXPECT_EQ(text_of("'a\""), "'a\"");
  EXPECT_EQ(text_of("'"), "'");
  EXPECT_EQ(text_of("''"), "");
  EXPECT_EQ(text_of("2"), "2");
}

TEST(ResultLines, Endings) {
  EXPECT_EQ(ending_lines({}), "");
  EXPECT_EQ(ending_lines({.execution_count = 3}),
            "{\"type\":\"number_of_executions\",\"execution_count\":3}\n");
  InterpreterResult failed{.status = ExecutionStatus::kError};
  failed.error = {"NameError", "x", "Traceback"};
  EXPECT_EQ(ending_lines(failed),
            "{\"type\":\"error\",\"name\":\"NameError\",\"value\":\"x\","
            "\"traceback\":\"Traceback\"}\n");
  EXPECT_EQ(ending_lines({.status = ExecutionStatus::kError, .exit_code = 2}),
            "{\"type\":\"error\",\"name\":\"ExitStatus\",\"value\":\"2\","
            "\"traceback\":\"exit status 2\"}\n");
  const std::string killed = ending_lines({.outcome = control::Outcome::kKilled,
                                           .status = ExecutionStatus::kInterrupted,
                                           .signal = 9,
                                           .running = false});
  EXPECT_NE(killed.find("InterpreterEnded"), std::string::npos) << killed;
  EXPECT_NE(killed.find("signal 9"), std::string::npos) << killed;
}

}  // namespace
}  // namespace atl::service::e2b::interpreter
