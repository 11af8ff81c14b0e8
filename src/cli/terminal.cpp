#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/strings.h"
#include "cli/api_error.h"

namespace atl::cli {

Result<std::unique_ptr<Terminal>> Terminal::open(const Console& console, std::string_view instead) {
  termios found{};
  if (::tcgetattr(console.input(), &found) != 0 || ::isatty(console.output()) != 1) {
    return fail(Code::kInvalidArgument,
                concat("standard input and output must be a terminal; ", instead));
  }
  return std::unique_ptr<Terminal>{new Terminal{console.input(), console.output(), found}};
}

Result<> Terminal::make_raw() {
  termios raw = found_;
  ::cfmakeraw(&raw);
  return change(raw);
}

Result<> Terminal::make_quiet() {
  termios quiet = found_;
  quiet.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  quiet.c_iflag &= ~static_cast<tcflag_t>(ICRNL);
  return change(quiet);
}

Result<> Terminal::change(const termios& mode) {
  termios wanted = mode;
  wanted.c_cc[VMIN] = 1;
  wanted.c_cc[VTIME] = 0;
  if (::tcsetattr(input_, TCSANOW, &wanted) != 0) {
    return fail_errno("changing the terminal's mode");
  }
  changed_ = true;
  return {};
}

void Terminal::restore() {
  if (changed_) {
    ::tcsetattr(input_, TCSANOW, &found_);
    changed_ = false;
  }
}

Terminal::Size Terminal::size() const {
  winsize window{};
  if (::ioctl(output_, TIOCGWINSZ, &window) != 0 || window.ws_row == 0 || window.ws_col == 0) {
    return {};
  }
  return {.rows = window.ws_row, .columns = window.ws_col};
}

}  // namespace atl::cli
