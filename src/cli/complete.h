// What could stand where a person pressed the completion key, read from the grammar.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/cli.h"

namespace atl::cli {

struct Candidate {
  std::string text;
  std::string description;
};

// What the word being typed is.
struct Completion {
  // Names of local files and of things on the server are found by others.
  enum class Kind : unsigned char {
    kWords,
    kFiles,
    kDirectories,
    kSandbox,
    kSandboxPlace,  // SANDBOX:/path or a local file
    kTemplate,
    kVolume,
    kNothing
  };
  Kind kind = Kind::kNothing;
  std::string prefix;                 // what is typed of it
  std::vector<Candidate> candidates;  // kWords: those that begin with the prefix
};

// `words` follow the program's name; the last one, maybe empty, is being typed. A shell that takes
// `=` and `:` for words of their own may pass them so.
Completion complete_words(std::vector<std::string> words, const Environment& environment);

// A script for bash, zsh or fish that asks `atoll complete`.
std::string_view completion_script(std::string_view shell);

}  // namespace atl::cli
