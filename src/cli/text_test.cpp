// Tables, ages, sizes, suggestions, times, event streams, error mapping: all without I/O.
#include <gtest/gtest.h>

#include <csignal>

#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/console.h"
#include "cli/event_stream.h"
#include "cli/fake_api.h"
#include "cli/limits.h"
#include "cli/progress.h"
#include "cli/remote_files.h"
#include "cli/suggest.h"
#include "cli/table.h"

namespace atl::cli {
namespace {

TEST(Table, AlignsColumnsAndLeavesTheLastUnpadded) {
  Table table{{"ID", "STATUS", "AGE"}};
  table.add({"a", "running", "1s"});
  table.add({"längér", "x", "10m"});
  EXPECT_EQ(table.render(),
            "ID      STATUS   AGE\n"
            "a       running  1s\n"
            "längér  x        10m\n");
}

TEST(Table, PaintsCellsButNotTheHeader) {
  Table table{{"A", "B"}};
  table.add({"x", "y"});
  const auto text = table.render([](std::size_t row, std::size_t column, std::string_view cell) {
    return concat(row, column, "<", cell, ">");
  });
  EXPECT_EQ(text, "A  B\n00<x  >01<y>\n");
}

TEST(Text, AgesAndSizes) {
  EXPECT_EQ(format_age(0), "0s");
  EXPECT_EQ(format_age(-5), "0s");
  EXPECT_EQ(format_age(59), "59s");
  EXPECT_EQ(format_age(61), "1m1s");
  EXPECT_EQ(format_age(3600), "1h");
  EXPECT_EQ(format_age(90000), "1d1h");
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(5ULL << 30), "5.0 GiB");
  EXPECT_EQ(format_bytes(~0ULL), "15.9 EiB");
}

TEST(Text, TransfersWithAndWithoutATotal) {
  EXPECT_EQ(describe_transfer(512, 1024, 1),
            "[############------------] 50%  512 B of 1.0 KiB  512 B/s");
  EXPECT_EQ(describe_transfer(512, 0, 0), "512 B");
  EXPECT_EQ(describe_transfer(2048, 1024, 0).substr(0, 31), "[########################] 100%");
}

TEST(Suggest, NearWordsOnly) {
  const std::vector<std::string> known{"run", "create", "exec", "ls", "inspect", "rm", "version"};
  EXPECT_EQ(nearest_word("rnu", known), "run");
  EXPECT_EQ(nearest_word("craete", known), "create");
  EXPECT_EQ(nearest_word("vers", known), "version");
  EXPECT_EQ(nearest_word("l", known), "ls");
  EXPECT_EQ(nearest_word("kubernetes", known), std::nullopt);
  EXPECT_EQ(nearest_word(std::string(10000, 'x'), known), std::nullopt);
  EXPECT_EQ(edit_distance("ab", "ba"), 1U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
}

std::string joined(const std::vector<ContextEvent>& events) {
  std::string out;
  for (const auto& event : events) {
    if (const auto* output = std::get_if<OutputEvent>(&event)) {
      out += concat(output->to_error ? "E" : "O", output->offset, ":", output->data, ";");
    } else {
      out += concat("exit ", std::get<ExitEvent>(event).status(), ";");
    }
  }
  return out;
}

TEST(EventDecoder, TheSameEventsHoweverTheBytesAreSplit) {
  const std::string stream = FakeApi::output_line("stdout", std::string_view{"a\0b\n", 4}, 0) +
                             "\n{\"type\":\"heartbeat\"}\r\n" +
                             FakeApi::output_line("stderr", "oops", 4) +
                             FakeApi::output_line("pty", "x", 8) + FakeApi::exit_line(3);
  const std::string expected{"O0:a\0b\n;E4:oops;O8:x;exit 3;", 28};
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    EventDecoder decoder;
    std::string seen;
    for (std::size_t i = 0; i < stream.size(); i += piece) {
      auto events = decoder.feed(std::string_view{stream}.substr(i, piece));
      ASSERT_TRUE(events.has_value());
      seen += joined(*events);
    }
    EXPECT_EQ(seen, expected) << piece;
    EXPECT_TRUE(decoder.at_line_start());
  }
}

TEST(EventDecoder, RefusesWhatIsNoEvent) {
  for (const auto* line :
       {"hello\n", "[]\n", "{}\n", "{\"type\":\"output\",\"data_base64\":\"?\"}\n",
        "{\"type\":\"output\",\"data_base64\":\"\",\"offset\":-1}\n",
        "{\"type\":\"error\",\"message\":\"x\"}\n"}) {
    EXPECT_FALSE(EventDecoder{}.feed(line).has_value()) << line;
  }
  EventDecoder decoder;
  EXPECT_TRUE(decoder.feed(std::string(kMaxStreamLineBytes, 'x')).has_value());
  EXPECT_FALSE(decoder.feed("x").has_value());
}

TEST(ExitEvent, StatusAsAShellWouldSay) {
  struct Case {
    const char* json;
    int expected;
  };
  const Case cases[] = {
      {R"({"type":"exit","exit_code":0,"signal":null,"state":"stopped"})", 0},
      {R"({"type":"exit","exit_code":7,"state":"crashed"})", 7},
      {R"({"type":"exit","signal":9,"state":"killed"})", 137},
      {R"({"type":"exit","signal":"SIGTERM","state":"killed"})", 143},
      {R"({"type":"exit","exit_code":137,"signal":"KILL","state":"killed"})", 137},
      {R"({"type":"exit","exit_code":-1,"state":"killed"})", 137},
      {R"({"type":"exit","signal":9,"timed_out":true,"state":"killed"})", 124},
      {R"({"type":"exit","signal":999})", 125},
      {R"({"type":"exit"})", 125},
  };
  for (const auto& test : cases) {
    auto event = decode_event(*Json::parse(test.json));
    ASSERT_TRUE(event.has_value() && event->has_value()) << test.json;
    EXPECT_EQ(std::get<ExitEvent>(**event).status(), test.expected) << test.json;
  }
}

TEST(ApiError, StatusAndEnvelopeBecomeAnError) {
  EXPECT_EQ(code_from_http_status(400), Code::kInvalidArgument);
  EXPECT_EQ(code_from_http_status(401), Code::kUnauthenticated);
  EXPECT_EQ(code_from_http_status(404), Code::kNotFound);
  EXPECT_EQ(code_from_http_status(409), Code::kFailedPrecondition);
  EXPECT_EQ(code_from_http_status(413), Code::kResourceExhausted);
  EXPECT_EQ(code_from_http_status(418), Code::kInvalidArgument);
  EXPECT_EQ(code_from_http_status(429), Code::kResourceExhausted);
  EXPECT_EQ(code_from_http_status(500), Code::kInternal);
  EXPECT_EQ(code_from_http_status(502), Code::kUnavailable);
  EXPECT_EQ(code_from_http_status(503), Code::kUnavailable);
  EXPECT_EQ(code_from_http_status(302), Code::kInternal);

  const auto error = error_from_answer(
      404, R"({"success":false,"error":{"code":"file_not_found","message":"no x"}})");
  EXPECT_EQ(error.message, "no x");
  EXPECT_EQ(error.reason, "file_not_found");
  EXPECT_EQ(error_from_answer(429, R"({"error":"slow down","retry_after":1})").message,
            "slow down");
  EXPECT_EQ(error_from_answer(502, "<html>").message, "the server answered 502: <html>");
  EXPECT_EQ(error_from_answer(502, "").message, "the server answered 502");
}

TEST(ApiError, HintsSayWhatToTryNext) {
  Endpoint endpoint;
  endpoint.url_text = "http://127.0.0.1:7070";
  endpoint.key_origin = "$ATOLL_API_KEY";
  const auto unreachable =
      transport_error(Error{Code::kUnavailable, "Connection refused", {}}, endpoint);
  EXPECT_NE(
      hint_for(unreachable, endpoint).find("is `atoll serve` running on http://127.0.0.1:7070"),
      std::string::npos);
  const Error refused{Code::kUnauthenticated, "bad key", "unauthorized"};
  EXPECT_NE(hint_for(refused, endpoint).find("$ATOLL_API_KEY was refused"), std::string::npos);
  endpoint.key_problem = "/var/lib/atoll/admin.key: Permission denied";
  EXPECT_NE(hint_for(refused, endpoint).find("Permission denied"), std::string::npos);
  EXPECT_EQ(hint_for(Error{Code::kNotFound, "x", {}}, endpoint), "");
}

TEST(Console, MakesHostileTextHarmless) {
  EXPECT_EQ(printable("a\x1b[31m\nb"), "a\\x1b[31m\\x0ab");
  EXPECT_EQ(printable("a\u009b31m\u00e9"), "a\\x9b31m\u00e9");  // the same in one character
  EXPECT_EQ(printable_line("\ta\tb\r"), "\ta\tb");
  EXPECT_EQ(printable_line("a\rctx-1 b"), "a\\x0dctx-1 b");
  EXPECT_EQ(printable_line(""), "");
  const Console plain{{.colours = true}};
  EXPECT_EQ(plain.paint_output(Colour::kRed, "x"), "x");
  const Console terminal{{.output_is_terminal = true, .colours = true}};
  EXPECT_EQ(terminal.paint_output(Colour::kRed, "x"), "\x1b[31mx\x1b[0m");
  const Console no_color{{.output_is_terminal = true, .colours = false}};
  EXPECT_EQ(no_color.paint_output(Colour::kRed, "x"), "x");
}

TEST(RemoteFiles, NamesAndPaths) {
  for (const auto* good : {"a", "..a", "a b", "-x"}) {
    EXPECT_TRUE(is_entry_name(good)) << good;
  }
  EXPECT_FALSE(is_entry_name(""));
  EXPECT_FALSE(is_entry_name("."));
  EXPECT_FALSE(is_entry_name(".."));
  EXPECT_FALSE(is_entry_name("a/b"));
  EXPECT_FALSE(is_entry_name(std::string_view{"a\0b", 3}));
  EXPECT_FALSE(is_entry_name(std::string(256, 'x')));
  EXPECT_EQ(join_path("/", "a"), "/a");
  EXPECT_EQ(join_path("/b//", "a"), "/b/a");
  EXPECT_EQ(last_component("/a/b/"), "b");
  EXPECT_EQ(last_component("/"), "");
  EXPECT_EQ(last_component("a/."), "");
}

}  // namespace
}  // namespace atl::cli
