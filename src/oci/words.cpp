#include "oci/words.h"

#include "base/strings.h"
#include "oci/limits.h"

namespace atl::oci {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name(char c) {
  return is_name_start(c) || (c >= '0' && c <= '9');
}

class Expander {
 public:
  Expander(const Lookup& lookup, char escape) : lookup_(lookup), escape_(escape) {}

  Result<std::string> expand(std::string_view text, int depth) {
    if (depth > kMaxDepth) {
      return fail(Code::kInvalidArgument, "variables are nested too deeply");
    }
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at];
      if (c == '\'') {
        const auto end = text.find('\'', at + 1);
        if (end == text.npos) {
          return fail(Code::kInvalidArgument, "a ' is not closed");
        }
        out += text.substr(at + 1, end - at - 1);
        at = end + 1;
      } else if (c == '"') {
        TRY(at, expand_quoted(text, at + 1, depth, out));
      } else {
        TRY(at, expand_one(text, at, depth, out));
      }
      if (out.size() > kMaxExpandedBytes) {
        return fail(Code::kInvalidArgument, "a word is too long after substitution");
      }
    }
    return out;
  }

 private:
  static constexpr int kMaxDepth = 16;

  Result<std::size_t> expand_quoted(std::string_view text, std::size_t at, int depth,
                                    std::string& out) {
    while (at < text.size() && text[at] != '"') {
      if (text[at] == escape_ && at + 1 < text.size()) {
        const char next = text[at + 1];
        if (next != '"' && next != '$' && next != escape_) {
          out += escape_;
        }
        out += next;
        at += 2;
      } else if (text[at] == '$') {
        TRY(at, expand_variable(text, at, depth, out));
      } else {
        out += text[at++];
      }
    }
    if (at >= text.size()) {
      return fail(Code::kInvalidArgument, "a \" is not closed");
    }
    return at + 1;
  }

  Result<std::size_t> expand_one(std::string_view text, std::size_t at, int depth,
                                 std::string& out) {
    if (text[at] == escape_ && at + 1 < text.size()) {
      out += text[at + 1];
      return at + 2;
    }
    if (text[at] == '$') {
      return expand_variable(text, at, depth, out);
    }
    out += text[at];
    return at + 1;
  }

  Result<std::size_t> expand_variable(std::string_view text, std::size_t at, int depth,
                                      std::string& out) {
    std::size_t end = at + 1;
    if (end < text.size() && text[end] == '{') {
      return expand_braces(text, end + 1, depth, out);
    }
    if (end >= text.size() || !is_name_start(text[end])) {
      out += '$';
      return end;
    }
    while (end < text.size() && is_name(text[end])) {
      ++end;
    }
    out += lookup_(text.substr(at + 1, end - at - 1)).value_or("");
    return end;
  }

  // The matching brace, with nested ${...} inside.
  static std::size_t closing_brace(std::string_view text, std::size_t at) {
    for (int open = 1; at < text.size(); ++at) {
      open += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
      if (open == 0) {
        return at;
      }
    }
    return text.npos;
  }

  Result<std::size_t> expand_braces(std::string_view text, std::size_t at, int depth,
                                    std::string& out) {
    const std::size_t close = closing_brace(text, at);
    if (close == text.npos) {
      return fail(Code::kInvalidArgument, "a ${ is not closed");
    }
    const std::string_view inner = text.substr(at, close - at);
    std::size_t length = 0;
    while (length < inner.size() && is_name(inner[length])) {
      ++length;
    }
    const std::string_view name = inner.substr(0, length);
    std::string_view operation = inner.substr(length);
    if (name.empty() || !is_name_start(name.front())) {
      return fail(Code::kInvalidArgument, concat("${", inner, "} is no variable"));
    }
    auto value = lookup_(name);
    if (operation.starts_with(':')) {
      operation.remove_prefix(1);
      if (value && value->empty()) {
        value.reset();
      }
      if (operation.empty()) {
        return fail(Code::kInvalidArgument, concat("${", inner, "} lacks an operation"));
      }
    }
    TRY_DO(apply(inner, name, operation, value, depth, out));
    return close + 1;
  }

  Result<> apply(std::string_view inner, std::string_view name, std::string_view operation,
                 const std::optional<std::string>& value, int depth, std::string& out) {
    if (operation.empty()) {
      out += value.value_or("");
      return {};
    }
    const char kind = operation.front();
    TRY(const std::string word, expand(operation.substr(1), depth + 1));
    switch (kind) {
      case '-':
        out += value ? *value : word;
        return {};
      case '+':
        out += value ? word : "";
        return {};
      case '?':
        if (!value) {
          return fail(Code::kInvalidArgument, concat(name, ": ", word.empty() ? "not set" : word));
        }
        out += *value;
        return {};
      default:
        return fail(Code::kInvalidArgument,
                    concat("${", inner, "} is not a known form; use ", ":-, :+ or :?"));
    }
  }

  const Lookup& lookup_;
  const char escape_;
};

}  // namespace

Result<std::vector<std::string>> split_words(std::string_view text, char escape) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (is_blank(c) || c == '\n') {
      if (in_word) {
        words.push_back(std::move(word));
        word.clear();
        in_word = false;
      }
      continue;
    }
    in_word = true;
    if (c == escape && at + 1 < text.size()) {
      word += c;
      word += text[++at];
    } else if (c == '\'' || c == '"') {
      std::size_t end = at + 1;
      while (end < text.size() && text[end] != c) {
        end += c == '"' && text[end] == escape && end + 1 < text.size() ? 2 : 1;
      }
      if (end >= text.size()) {
        return fail(Code::kInvalidArgument, concat("a ", c, " is not closed"));
      }
      word += text.substr(at, end - at + 1);
      at = end;
    } else {
      word += c;
    }
  }
  if (in_word) {
    words.push_back(std::move(word));
  }
  return words;
}

Result<std::string> expand_word(std::string_view word, const Lookup& lookup, char escape) {
  return Expander{lookup, escape}.expand(word, 0);
}

}  // namespace atl::oci
