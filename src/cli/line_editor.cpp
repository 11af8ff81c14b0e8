#include "cli/line_editor.h"

#include <algorithm>

#include "base/strings.h"
#include "cli/table.h"

namespace atl::cli {
namespace {

constexpr std::size_t kMaxLineBytes = 1UL << 20;
constexpr std::size_t kMaxHistory = 1000;
constexpr std::size_t kMaxSequenceBytes = 32;
constexpr std::string_view kPasteOn = "\x1b[?2004h";
constexpr std::string_view kPasteOff = "\x1b[?2004l";
constexpr std::string_view kIndent = "    ";

constexpr char control_key(char letter) {
  return static_cast<char>(letter & 0x1f);
}
bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U;
}
bool is_control(char byte) {
  return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f;
}

}  // namespace

std::string LineEditor::begin(std::string prompt, std::size_t columns) {
  prompt_ = std::move(prompt);
  resize(columns);
  text_.clear();
  cursor_ = 0;
  cursor_row_ = 0;
  recalled_ = history_.size();
  return concat(kPasteOn, draw());
}

LineEditor::Step LineEditor::feed(std::string_view keys) {
  Step step;
  for (const char letter : keys) {
    ++step.taken;
    step.outcome = key(letter);
    if (step.outcome != Outcome::kNone) {
      step.screen += leave_line();
      return step;
    }
  }
  step.screen += draw();
  return step;
}

std::string LineEditor::take() {
  if (!trim(text_).empty() && (history_.empty() || history_.back() != text_)) {
    history_.push_back(text_);
    if (history_.size() > kMaxHistory) {
      history_.erase(history_.begin());
    }
  }
  return std::exchange(text_, {});
}

LineEditor::Outcome LineEditor::key(char letter) {
  if (state_ == State::kEscape) {
    state_ = letter == '['   ? State::kSequence
             : letter == 'O' ? State::kShortSequence
                             : State::kPlain;
    sequence_.clear();
    return Outcome::kNone;
  }
  if (state_ == State::kShortSequence) {
    state_ = State::kPlain;
    return finish_sequence(letter);
  }
  if (state_ == State::kSequence) {
    if (letter >= 0x40 && letter <= 0x7e) {
      state_ = State::kPlain;
      return finish_sequence(letter);
    }
    sequence_ += letter;
    if (sequence_.size() > kMaxSequenceBytes) {
      state_ = State::kPlain;
    }
    return Outcome::kNone;
  }
  if (letter == 0x1b) {
    state_ = State::kEscape;
    return Outcome::kNone;
  }
  if (pasting_) {
    if (pasted_.size() < kMaxLineBytes) {
      pasted_ += letter == '\r' ? '\n' : letter;
    }
    return Outcome::kNone;
  }
  return is_control(letter) ? control(letter) : (insert({&letter, 1}), Outcome::kNone);
}

LineEditor::Outcome LineEditor::control(char letter) {
  switch (letter) {
    case '\r':
    case '\n':
      return Outcome::kLine;
    case control_key('C'):
      return Outcome::kInterrupt;
    case control_key('D'):
      if (text_.empty()) {
        return Outcome::kEnd;
      }
      [[fallthrough]];
    case '\0':
      if (letter != '\0' && cursor_ < text_.size()) {
        const auto from = cursor_;
        step_forward();
        erase(from, cursor_);
      }
      break;
    case control_key('H'):
    case 0x7f: {
      const auto to = cursor_;
      step_back();
      erase(cursor_, to);
      break;
    }
    case control_key('A'):
      cursor_ = 0;
      break;
    case control_key('E'):
      cursor_ = text_.size();
      break;
    case control_key('B'):
      step_back();
      break;
    case control_key('F'):
      step_forward();
      break;
    case control_key('K'):
      erase(cursor_, text_.size());
      break;
    case control_key('U'):
      erase(0, cursor_);
      break;
    case control_key('W'):
      erase(word_start(), cursor_);
      break;
    case control_key('L'):
      clear_screen_ = true;
      break;
    case control_key('P'):
      recall(-1);
      break;
    case control_key('N'):
      recall(1);
      break;
    case '\t':
      insert(kIndent);
      break;
    default:
      break;
  }
  return Outcome::kNone;
}

LineEditor::Outcome LineEditor::finish_sequence(char final) {
  if (final == '~' && sequence_ == "200") {
    pasting_ = true;
  } else if (final == '~' && sequence_ == "201") {
    return finish_paste();
  } else if (final == '~' && sequence_ == "3") {
    const auto from = cursor_;
    step_forward();
    erase(from, cursor_);
  } else if (final == 'A') {
    recall(-1);
  } else if (final == 'B') {
    recall(1);
  } else if (final == 'C') {
    step_forward();
  } else if (final == 'D') {
    step_back();
  } else if (final == 'H' || (final == '~' && (sequence_ == "1" || sequence_ == "7"))) {
    cursor_ = 0;
  } else if (final == 'F' || (final == '~' && (sequence_ == "4" || sequence_ == "8"))) {
    cursor_ = text_.size();
  }
  return Outcome::kNone;
}

// What is pasted is text: its control characters do nothing, and several lines are given at once.
LineEditor::Outcome LineEditor::finish_paste() {
  pasting_ = false;
  auto pasted = std::exchange(pasted_, {});
  std::erase_if(pasted, [](char c) { return is_control(c) && c != '\n' && c != '\t'; });
  const bool several = pasted.contains('\n');
  if (several && pasted.ends_with('\n')) {
    pasted.pop_back();
  }
  insert(pasted);
  return several ? Outcome::kLine : Outcome::kNone;
}

void LineEditor::step_back() {
  while (cursor_ > 0 && is_continuation(text_[--cursor_])) {
  }
}

void LineEditor::step_forward() {
  while (cursor_ < text_.size() && ++cursor_ < text_.size() && is_continuation(text_[cursor_])) {
  }
}

void LineEditor::erase(std::size_t from, std::size_t to) {
  text_.erase(from, to - from);
  cursor_ = from;
}

void LineEditor::insert(std::string_view text) {
  if (text_.size() + text.size() <= kMaxLineBytes) {
    text_.insert(cursor_, text);
    cursor_ += text.size();
  }
}

void LineEditor::recall(std::ptrdiff_t step) {
  const auto next = static_cast<std::ptrdiff_t>(recalled_) + step;
  if (next < 0 || next > static_cast<std::ptrdiff_t>(history_.size())) {
    return;
  }
  if (recalled_ == history_.size()) {
    unfinished_ = text_;
  }
  recalled_ = static_cast<std::size_t>(next);
  text_ = recalled_ == history_.size() ? unfinished_ : history_[recalled_];
  cursor_ = text_.size();
}

std::size_t LineEditor::word_start() const {
  std::size_t at = cursor_;
  while (at > 0 && text_[at - 1] == ' ') {
    --at;
  }
  while (at > 0 && text_[at - 1] != ' ') {
    --at;
  }
  return at;
}

// Newlines of a recalled paste are shown as a sign, so that the text stays one line.
std::string LineEditor::draw() {
  std::string shown;
  for (const char letter : text_) {
    if (letter == '\n') {
      shown += "\u21b5";
    } else {
      shown += letter == '\t' ? ' ' : letter;
    }
  }
  std::string out;
  if (std::exchange(clear_screen_, false)) {
    out = "\x1b[H\x1b[2J";
    cursor_row_ = 0;
  }
  if (cursor_row_ > 0) {
    out += concat("\x1b[", cursor_row_, "A");
  }
  out += concat("\r\x1b[J", prompt_, shown);
  const std::size_t before = display_width(prompt_);
  const std::size_t end = before + display_width(text_);
  const std::size_t at = before + display_width(std::string_view{text_}.substr(0, cursor_));
  if (end > 0 && end % columns_ == 0) {
    out += "\r\n";  // the terminal waits at the edge until something more comes
  }
  const std::size_t rows_up = end / columns_ - at / columns_;
  if (rows_up > 0) {
    out += concat("\x1b[", rows_up, "A");
  }
  out += '\r';
  if (at % columns_ > 0) {
    out += concat("\x1b[", at % columns_, "C");
  }
  cursor_row_ = at / columns_;
  return out;
}

std::string LineEditor::leave_line() {
  cursor_ = text_.size();
  std::string out = draw();
  return concat(out, "\r\n", kPasteOff);
}

}  // namespace atl::cli
