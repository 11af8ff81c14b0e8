// Console: the three standard descriptors and how to talk to whoever reads them.
//
// Data goes to the output, everything else (progress, hints, errors) to the error output. A
// terminal gets colours (unless NO_COLOR) and progress; a pipe gets neither. Text that came from
// the API passes through printable() before it reaches a terminal, so a sandbox cannot send escape
// sequences through an error message; the output of commands is passed on as it is, on purpose.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::cli {

enum class Colour : unsigned char { kNone, kRed, kGreen, kYellow, kDim, kBold };

class Console {
 public:
  struct Options {
    int input = 0;
    int output = 1;
    int error = 2;
    bool output_is_terminal = false;
    bool error_is_terminal = false;
    bool colours = true;  // false: NO_COLOR
  };
  // The process's own descriptors, looked at once.
  static Console standard();
  explicit Console(Options options) : options_(options) {}

  int input() const { return options_.input; }
  int output() const { return options_.output; }
  int error() const { return options_.error; }
  bool output_is_terminal() const { return options_.output_is_terminal; }
  bool error_is_terminal() const { return options_.error_is_terminal; }

  // Blocking writes of small texts. A reader that has gone is not an error of ours.
  void print(std::string_view text) const;
  void complain(std::string_view text) const;

  std::string paint_output(Colour colour, std::string_view text) const {
    return paint(options_.output_is_terminal, colour, text);
  }
  std::string paint_error(Colour colour, std::string_view text) const {
    return paint(options_.error_is_terminal, colour, text);
  }

  // "atoll: message", and "hint: …" below it when there is one.
  void report(std::string_view message, std::string_view hint = {}) const;

 private:
  std::string paint(bool terminal, Colour colour, std::string_view text) const;

  Options options_;
};

// One line, control characters made visible.
std::string printable(std::string_view text);
// A line that a command printed, without its end: tabs stay.
std::string printable_line(std::string_view line);

}  // namespace atl::cli
