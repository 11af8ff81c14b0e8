// The parts of shell and repl that do no I/O.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/fd.h"
#include "base/strings.h"
#include "cli/continuation.h"
#include "cli/escape_filter.h"
#include "cli/line_editor.h"
#include "cli/rich_result.h"

namespace atl::cli {
namespace {

TEST(EscapeFilter, FindsItsCommandsAtTheStartOfALineOnly) {
  using Action = EscapeFilter::Action;
  struct Case {
    std::string_view typed;
    std::string_view keys;
    Action action;
  };
  const Case cases[] = {
      {"~.", "", Action::kDetach},         {"ls\r~.", "ls\r", Action::kDetach},
      {"a~.", "a~.", Action::kNone},       {"~~", "~", Action::kNone},
      {"~~.", "~.", Action::kNone},        {"~x", "~x", Action::kNone},
      {"~\r~.", "~\r", Action::kDetach},   {"~?", "", Action::kExplain},
      {"\n~\x1a", "\n", Action::kSuspend},
  };
  for (const auto& test : cases) {
    EscapeFilter whole{true};
    const auto step = whole.feed(test.typed);
    EXPECT_EQ(step.keys, test.keys) << test.typed;
    EXPECT_EQ(step.action, test.action) << test.typed;
    EscapeFilter pieces{true};  // a byte at a time
    std::string keys;
    auto action = Action::kNone;
    for (const char letter : test.typed) {
      const auto part = pieces.feed({&letter, 1});
      keys += part.keys;
      action = part.action == Action::kNone ? action : part.action;
    }
    EXPECT_EQ(keys, test.keys) << test.typed;
    EXPECT_EQ(action, test.action) << test.typed;
  }
}

TEST(EscapeFilter, GoesOnBehindACommandAndCanBeOff) {
  EscapeFilter filter{true};
  const auto step = filter.feed("~?rest");
  EXPECT_EQ(step.taken, 2U);
  EscapeFilter off{false};
  EXPECT_EQ(off.feed("~.").keys, "~.");
}

std::string type(LineEditor& editor, std::string_view keys) {
  (void)editor.begin("> ", 80);
  const auto step = editor.feed(keys);
  EXPECT_EQ(step.outcome, LineEditor::Outcome::kLine) << keys;
  EXPECT_EQ(step.taken, keys.size()) << keys;
  return editor.take();
}

TEST(LineEditor, Keys) {
  LineEditor editor;
  EXPECT_EQ(type(editor, "abc\r"), "abc");
  EXPECT_EQ(type(editor, "ac\x1b[Db\r"), "abc");
  EXPECT_EQ(type(editor, "abcx\x7f\r"), "abc");
  EXPECT_EQ(type(editor,
                 "bc\x01"
                 "a\x05"
                 "d\r"),
            "abcd");
  EXPECT_EQ(type(editor, "one two\x17three\r"), "one three");
  EXPECT_EQ(type(editor, "gone\x15kept\r"), "kept");
  EXPECT_EQ(type(editor, "abc\x1b[H\x0b\r"), "");
  EXPECT_EQ(type(editor, "xabc\x1b[1~\x1b[3~\r"), "abc");
  EXPECT_EQ(type(editor, "a\u00fc\u20ac\x7f\x1b[D\x1b[3~\r"), "a");
  EXPECT_EQ(type(editor, "\tx\r"), "    x");
  EXPECT_EQ(type(editor, "a\x1b[1;5Cb\x1bOHc\r"), "cab");  // modifiers and the other cursor mode
}

TEST(LineEditor, HistoryKeepsTheUnfinishedLine) {
  LineEditor editor;
  type(editor, "first\r");
  type(editor, "second\r");
  EXPECT_EQ(type(editor, "\x1b[A\x1b[A\r"), "first");
  EXPECT_EQ(type(editor, "half\x1b[A\x1b[B\r"), "half");
}

TEST(LineEditor, EndsAndInterrupts) {
  LineEditor editor;
  (void)editor.begin("> ", 80);
  EXPECT_EQ(editor.feed("\x04").outcome, LineEditor::Outcome::kEnd);
  (void)editor.begin("> ", 80);
  EXPECT_EQ(editor.feed("ab\x01\x04\r").outcome, LineEditor::Outcome::kLine);
  EXPECT_EQ(editor.take(), "b");
  (void)editor.begin("> ", 80);
  const auto step = editor.feed("abc\x03next");
  EXPECT_EQ(step.outcome, LineEditor::Outcome::kInterrupt);
  EXPECT_EQ(step.taken, 4U);
}

TEST(LineEditor, APasteOfSeveralLinesIsOne) {
  LineEditor editor;
  EXPECT_EQ(type(editor, "\x1b[200~def f():\r  return 1\r\x1b[201~"), "def f():\n  return 1");
  (void)editor.begin("> ", 80);
  // Keys in a paste are text, and one line of it waits.
  EXPECT_EQ(editor
                .feed("\x1b[200~a\x03"
                      "b\x1b[201~")
                .outcome,
            LineEditor::Outcome::kNone);
  EXPECT_EQ(editor.feed("\r").outcome, LineEditor::Outcome::kLine);
  EXPECT_EQ(editor.take(), "ab");
}

TEST(LineEditor, LongLinesWrap) {
  LineEditor editor;
  (void)editor.begin("> ", 10);
  // 2 + 20 letters: three rows, the cursor in the third.
  EXPECT_TRUE(editor.feed("aaaaaaaaaabbbbbbbbbb").screen.ends_with("\r\x1b[2C"));
  // The next drawing begins two rows higher, and ends in the first row.
  const auto step = editor.feed("\x01");
  EXPECT_TRUE(step.screen.starts_with("\x1b[2A\r\x1b[J> aaa"));
  EXPECT_TRUE(step.screen.ends_with("\x1b[2A\r\x1b[2C"));
}

TEST(Continuation, KnowsWhatIsUnfinished) {
  struct Case {
    std::string_view language;
    std::string_view code;
    bool more;
  };
  const Case cases[] = {
      {"python", "1 + 1", false},
      {"python", "f(1,", true},
      {"python", "f(1,\n  2)", false},
      {"python", "x = '''a", true},
      {"python", "x = '''a\nb'''", false},
      {"python", "x = 'a(b'", false},
      {"python", "x = 'unfinished", true},
      {"python", "# (", false},
      {"python", "if x:", true},
      {"python", "if x:\n    y", true},
      {"python", "if x:\n    y\n", false},
      {"python", "if x:\n    y\nz", false},
      {"python", "for i in x: # here", true},
      {"python", "@decorated", true},
      {"python", "x = {1: 2}", false},
      {"python", "a = 1 + \\", true},
      {"javascript", "const f = () => {", true},
      {"javascript", "const f = () => {\n}", false},
      {"javascript", "`a", true},
      {"javascript", "`a\n(`", false},
      {"javascript", "/* a", true},
      {"javascript", "1 // (", false},
      {"bash", "echo $((1 + 1))", false},
      {"bash", "for i in 1 2; do", true},
      {"bash", "for i in 1 2; do\necho $i; done", false},
      {"bash", "if true; then", true},
      {"bash", "f() {", true},
      {"bash", "echo 'a", true},
      {"bash", "true &&", true},
      {"bash", "echo a#'", true},
      {"bash", "echo a # '", false},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(wants_more_lines(test.language, test.code), test.more)
        << test.language << ": " << test.code;
  }
}

const std::string kPng = std::string{"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x02\x80\0\0\x01\xe0", 24};

TEST(RichResult, PicturesAreMentionedWithTheirSize) {
  ResultPrinter printer{""};
  const auto bundle =
      Json::object({{"text/plain", "<Figure>"}, {"image/png", base64_encode(kPng)}});
  EXPECT_EQ(printer.render(bundle).value_or(""), "<Figure>\n[image/png 640x480]\n");
  EXPECT_EQ(printer.render(Json::object({{"image/png", "?"}})).value_or(""),
            "[image/png, damaged]\n");
  EXPECT_EQ(printer.render(Json::object({{"text/plain", "42"}})).value_or(""), "42\n");
  EXPECT_EQ(printer.render(Json::object()).value_or("?"), "");
}

TEST(RichResult, SizesOfHostileHeaders) {
  EXPECT_FALSE(picture_size("").has_value());
  EXPECT_FALSE(picture_size("\x89PNG\r\n\x1a\n").has_value());
  const std::string jpeg{"\xff\xd8\xff\xe0\0\x04xx\xff\xc0\0\x0b\x08\0\x30\0\x40\x01\x01", 20};
  ASSERT_TRUE(picture_size(jpeg).has_value());
  EXPECT_EQ(picture_size(jpeg)->width, 64U);
  EXPECT_EQ(picture_size(jpeg)->height, 48U);
  for (std::size_t size = 0; size < 17; ++size) {
    EXPECT_FALSE(picture_size(std::string_view{jpeg}.substr(0, size)).has_value());
  }
  EXPECT_FALSE(picture_size(std::string{"\xff\xd8\xff\xe0\0\0\xff\xe0\0\0\xff\xe0", 12}));
}

TEST(RichResult, SavesWithoutOverwriting) {
  char directory[] = "/tmp/atoll-pictures-XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  const std::string place = concat(directory, "/sub");
  const auto bundle = Json::object({{"image/png", base64_encode(kPng)}});
  for (const int number : {1, 2}) {
    ResultPrinter printer{place};  // a new one, as of another invocation
    EXPECT_EQ(printer.render(bundle).value_or(""),
              concat("[image/png 640x480 -> ", place, "/image-", number, ".png]\n"));
  }
  EXPECT_EQ(read_file(concat(place, "/image-1.png")).value_or(""), kPng);
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
}

}  // namespace
}  // namespace atl::cli
