#include "cli/continuation.h"

#include <string>

#include "base/strings.h"

namespace atl::cli {
namespace {

struct Rules {
  bool triple_quotes = false;
  bool hash_comments = false;
  bool slash_comments = false;
  bool backquotes = false;  // a string over several lines
  bool plain_strings_span_lines = false;
  bool brackets = true;
};

Rules rules_of(std::string_view language) {
  if (language.starts_with("python")) {
    return {.triple_quotes = true, .hash_comments = true};
  }
  if (language == "bash" || language == "sh") {
    // Brackets mean too many things there; keywords are counted instead.
    return {.hash_comments = true, .plain_strings_span_lines = true, .brackets = false};
  }
  return {.slash_comments = true, .backquotes = true};
}

// Reads over code and knows what is open at its end.
class Scanner {
 public:
  Scanner(Rules rules, std::string_view code) : rules_(rules), code_(code) {}

  // True: something is open.
  bool run() {
    while (at_ < code_.size()) {
      step();
    }
    return !quote_.empty() || depth_ > 0;
  }
  bool in_string() const { return !quote_.empty(); }
  // The code without strings and comments, for those who count words.
  const std::string& bare() const { return bare_; }

 private:
  bool here(std::string_view text) const { return code_.substr(at_).starts_with(text); }

  void step() {
    const char letter = code_[at_];
    if (!quote_.empty()) {
      step_in_string(letter);
    } else if ((rules_.hash_comments && letter == '#' && at_word_start()) ||
               (rules_.slash_comments && here("//"))) {
      at_ = std::min(code_.find('\n', at_), code_.size());
    } else if (rules_.slash_comments && here("/*")) {
      const auto end = code_.find("*/", at_ + 2);
      depth_ += end == std::string_view::npos ? 1 : 0;
      at_ = end == std::string_view::npos ? code_.size() : end + 2;
    } else if (letter == '"' || letter == '\'' || (rules_.backquotes && letter == '`')) {
      open_string(letter);
    } else {
      if (rules_.brackets) {
        depth_ += std::string_view{"([{"}.contains(letter) ? 1 : 0;
        depth_ -= std::string_view{")]}"}.contains(letter) ? 1 : 0;
      }
      bare_ += letter;
      at_ += letter == '\\' && at_ + 1 < code_.size() ? 2 : 1;
    }
  }

  bool at_word_start() const {
    return rules_.triple_quotes || at_ == 0 || std::string_view{" \t\n;"}.contains(code_[at_ - 1]);
  }

  void open_string(char letter) {
    const std::string triple(3, letter);
    quote_ = rules_.triple_quotes && here(triple) ? triple : std::string(1, letter);
    at_ += quote_.size();
    bare_ += 's';
  }

  void step_in_string(char letter) {
    const bool raw = quote_ == "'" && rules_.plain_strings_span_lines;
    if (letter == '\\' && !raw) {
      at_ = std::min(at_ + 2, code_.size());
    } else if (here(quote_)) {
      at_ += quote_.size();
      quote_.clear();
    } else {
      const bool spans = quote_.size() == 3 || quote_ == "`" || rules_.plain_strings_span_lines;
      if (letter == '\n' && !spans) {
        quote_.clear();  // a mistake that the interpreter shall explain
      }
      ++at_;
    }
  }

  Rules rules_;
  std::string_view code_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string quote_;
  std::string bare_;
};

std::string_view last_line(std::string_view code) {
  const auto newline = code.rfind('\n');
  return newline == std::string_view::npos ? code : code.substr(newline + 1);
}

// A block goes on until an empty line, as at Python's own prompt, or until one that is not indented
// (which only a paste has).
bool python_block_is_open(std::string_view code, std::string_view bare) {
  const auto last = last_line(code);
  const bool heads = trim(last_line(bare)).ends_with(':') || last.starts_with('@');
  if (heads || trim(last).empty() || (last.front() != ' ' && last.front() != '\t')) {
    return heads;
  }
  for (const auto line : split(bare, '\n')) {
    if (trim(line).ends_with(':')) {
      return true;
    }
  }
  return false;
}

bool bash_block_is_open(const std::string& bare) {
  int depth = 0;
  std::string word;
  for (const char letter : bare + "\n") {
    if (std::string_view{" \t\n;()"}.contains(letter)) {
      depth += word == "if" || word == "do" || word == "case" || word == "{" ? 1 : 0;
      depth -= word == "fi" || word == "done" || word == "esac" || word == "}" ? 1 : 0;
      word.clear();
    } else {
      word += letter;
    }
  }
  const auto text = trim(bare);
  // `for x in a b` waits for its do.
  const auto line = trim(last_line(text));
  const bool loop_head =
      (line.starts_with("for ") || line.starts_with("while ") || line.starts_with("until ")) &&
      !line.contains("do");
  return depth > 0 || loop_head || text.ends_with("&&") || text.ends_with("||") ||
         (text.ends_with('|') && !text.ends_with("||"));
}

}  // namespace

bool wants_more_lines(std::string_view language, std::string_view code) {
  Scanner scanner{rules_of(language), code};
  if (scanner.run()) {
    return true;
  }
  if (last_line(code).ends_with('\\') && !code.ends_with("\\\\")) {
    return true;
  }
  if (language.starts_with("python")) {
    return python_block_is_open(code, scanner.bare());
  }
  return (language == "bash" || language == "sh") && bash_block_is_open(scanner.bare());
}

}  // namespace atl::cli
