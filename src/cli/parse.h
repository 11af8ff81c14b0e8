// Arguments to an Invocation, or to a text to print (help), or to an error that says what to type.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/options.h"

namespace atl::cli {

struct HelpText {
  std::string text;
};
using Parsed = std::variant<Invocation, HelpText>;

// `arguments` without the program's name. In `run` and `exec` everything after `--`, or from the
// first word that is no option of ours, belongs to the command and is not looked at.
// Errors have kInvalidArgument, reason "usage", and the hint that fits in `usage_hint`.
Result<Parsed> parse_arguments(const std::vector<std::string>& arguments,
                               const Environment& environment);

// "A=1" -> {"A","1"}; "A" takes its value from our own environment, as docker does.
Result<std::pair<std::string, std::string>> parse_env(std::string_view text);
// "30", "1.5", "90s", "10m", "2h" -> milliseconds
Result<std::uint64_t> parse_duration_ms(std::string_view text);

// What `atoll cp` copies from or to.
struct CopyPlace {
  enum class Kind : unsigned char { kLocal, kSandbox, kStandard };  // kStandard: "-"
  Kind kind = Kind::kLocal;
  std::string sandbox_id;
  std::string path;
};
// "ID:/path" is in a sandbox; "-" is standard input or output; all else is local. A local name
// with a colon is written with a slash before it: ./a:b
CopyPlace parse_place(std::string_view text);

}  // namespace atl::cli
