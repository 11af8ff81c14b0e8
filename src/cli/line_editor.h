// LineEditor: one line of input with a cursor, keys as in other shells, and a history.
//
// Sans-IO: keys in, text for the screen out. The terminal is raw while it works. Lines longer than
// the window wrap, and are drawn anew from their first row after each batch of keys. A paste of
// several lines (bracketed paste) is one line with newlines in it. Every code point counts as one
// column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace atl::cli {

class LineEditor {
 public:
  enum class Outcome : unsigned char { kNone, kLine, kInterrupt, kEnd };
  struct Step {
    Outcome outcome = Outcome::kNone;
    std::string screen;     // what to write
    std::size_t taken = 0;  // of the keys given
  };

  // Begins a line; returns what to write.
  std::string begin(std::string prompt, std::size_t columns);
  void resize(std::size_t columns) { columns_ = columns == 0 ? 1 : columns; }
  // Stops after a key that ends the line.
  Step feed(std::string_view keys);
  // After kLine: what was typed. Goes into the history.
  std::string take();

 private:
  enum class State : unsigned char { kPlain, kEscape, kSequence, kShortSequence };

  Outcome key(char letter);
  Outcome control(char letter);
  Outcome finish_sequence(char final);
  Outcome finish_paste();
  void step_back();
  void step_forward();
  void erase(std::size_t from, std::size_t to);
  void insert(std::string_view text);
  void recall(std::ptrdiff_t step);
  std::size_t word_start() const;
  std::string draw();
  std::string leave_line();

  std::string prompt_;
  std::string text_;
  std::size_t cursor_ = 0;  // byte in text_, at the start of a code point
  std::size_t columns_ = 80;
  std::size_t cursor_row_ = 0;  // where the terminal's cursor was left, from the prompt's row
  State state_ = State::kPlain;
  std::string sequence_;
  bool pasting_ = false;
  bool clear_screen_ = false;
  std::string pasted_;
  std::vector<std::string> history_;
  std::size_t recalled_ = 0;  // index in history_; its size: the new line
  std::string unfinished_;    // the new line while an old one is shown
};

}  // namespace atl::cli
