#include "cli/console.h"

#include <unistd.h>

#include <cstdlib>

#include "base/fd.h"
#include "base/strings.h"

namespace atl::cli {

Console Console::standard() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string_view{term} == "dumb";
  return Console{Options{
      .output_is_terminal = ::isatty(1) == 1,
      .error_is_terminal = ::isatty(2) == 1,
      .colours = (no_color == nullptr || *no_color == '\0') && !dumb,
  }};
}

void Console::print(std::string_view text) const {
  (void)write_all(options_.output, text);
}
void Console::complain(std::string_view text) const {
  (void)write_all(options_.error, text);
}

std::string Console::paint(bool terminal, Colour colour, std::string_view text) const {
  if (!terminal || !options_.colours || colour == Colour::kNone) {
    return std::string{text};
  }
  static constexpr std::string_view kCodes[] = {"0", "31", "32", "33", "2", "1"};
  return concat("\x1b[", kCodes[static_cast<unsigned>(colour)], "m", text, "\x1b[0m");
}

void Console::report(std::string_view message, std::string_view hint) const {
  std::string out = concat(paint_error(Colour::kRed, "atoll:"), " ", printable(message), "\n");
  if (!hint.empty()) {
    out += concat(paint_error(Colour::kYellow, "hint:"), " ", printable(hint), "\n");
  }
  complain(out);
}

std::string printable(std::string_view text) {
  std::string out;
  append_printable(out, to_valid_utf8(text));
  return out;
}

std::string printable_line(std::string_view line) {
  if (line.ends_with('\r')) {
    line.remove_suffix(1);  // of a terminal's line
  }
  std::string out;
  for (const auto part : split(line, '\t')) {
    out += printable(part) + '\t';
  }
  out.pop_back();
  return out;
}

}  // namespace atl::cli
