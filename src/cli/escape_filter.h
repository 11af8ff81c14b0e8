// EscapeFilter: finds the commands to ourselves among the keys that go to a shell.
//
// As in ssh: `~` as the first letter of a line is held back, and the next key decides. `~.`
// detaches, `~^Z` suspends, `~?` explains, `~~` is one tilde; anything else passes both on.
#pragma once

#include <string>
#include <string_view>

namespace atl::cli {

class EscapeFilter {
 public:
  explicit EscapeFilter(bool enabled) : enabled_(enabled) {}

  enum class Action : unsigned char { kNone, kDetach, kSuspend, kExplain };
  struct Step {
    std::string keys;  // for the shell
    Action action = Action::kNone;
    std::size_t taken = 0;  // of the bytes given; feed the rest after acting
  };
  Step feed(std::string_view bytes);

 private:
  Action decide(char key, std::string& keys);

  bool enabled_;
  bool line_start_ = true;
  bool held_ = false;
};

inline constexpr std::string_view kEscapeHelp =
    "\r\nAt the start of a line:\r\n"
    "  ~.   detach: the shell goes on without us\r\n"
    "  ~^Z  suspend atoll\r\n"
    "  ~?   this text\r\n"
    "  ~~   a tilde\r\n";

}  // namespace atl::cli
