// A Dockerfile as data: stages of instructions, each with the line it began on.
//
// Parsing knows the grammar (continuation lines, comments, the escape directive, JSON forms, flags,
// heredocs) and refuses what it does not know, naming line and text. Variables are not replaced
// here: their values depend on what ran before (see words.h). Pure: text in, values out.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::oci {

enum class Verb : std::uint8_t {
  kRun,
  kCopy,
  kAdd,
  kEnv,
  kArg,
  kWorkdir,
  kUser,
  kCommand,
  kEntrypoint,
  kExpose,
  kLabel,
  kShell,
  kIgnored,  // VOLUME, HEALTHCHECK, STOPSIGNAL, MAINTAINER: allowed, without effect, said so
};

struct Heredoc {
  std::string name;
  std::string content;
  bool expand = true;  // the name was not quoted
};

struct Instruction {
  Verb verb = Verb::kRun;
  int line = 0;
  std::string keyword;  // "RUN"
  std::string text;     // the rest, continuation lines joined, without flags
  std::map<std::string, std::string, std::less<>> flags;  // "--chown=1:1" -> chown
  bool exec_form = false;
  std::vector<std::string> words;  // of the exec form as given; of others split, still quoted
  std::vector<Heredoc> heredocs;

  // "RUN make -j2", for people.
  std::string display() const;
};

struct Stage {
  int line = 0;
  std::string base;  // image, stage or "scratch"; variables not replaced
  std::string name;  // lower case; may be empty
  std::string platform;
  std::vector<Instruction> instructions;
};

struct Dockerfile {
  char escape = '\\';
  std::vector<Instruction> global_arguments;  // ARG before the first FROM
  std::vector<Stage> stages;
};

Result<Dockerfile> parse_dockerfile(std::string_view text);

// "Dockerfile:12: <what>" with the code and reason of `error`.
Error at_line(int line, Error error);

}  // namespace atl::oci
