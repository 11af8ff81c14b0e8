// Terminal: the person's terminal, raw for as long as something else reads its keys.
//
// The state it was found in comes back when the object goes, whatever the way out: commands end by
// returning, also after signals and errors, so the destructor always runs.
#pragma once

#include <termios.h>

#include <cstdint>
#include <memory>

#include "base/error.h"
#include "cli/console.h"

namespace atl::cli {

class Terminal {
 public:
  struct Size {
    std::uint16_t rows = 24;
    std::uint16_t columns = 80;
  };

  // Fails unless input and output are both a terminal. `instead` says what to use without one.
  static Result<std::unique_ptr<Terminal>> open(const Console& console, std::string_view instead);
  ~Terminal() { restore(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Keys arrive as they are typed, nothing is echoed, Ctrl-C is a byte.
  Result<> make_raw();
  // Keys wait unseen for whoever reads next, but Ctrl-C is a signal and output looks as usual.
  Result<> make_quiet();
  void restore();
  Size size() const;

 private:
  Terminal(int input, int output, const termios& found)
      : input_(input), output_(output), found_(found) {}

  Result<> change(const termios& mode);

  int input_;
  int output_;
  termios found_;
  bool changed_ = false;
};

}  // namespace atl::cli
