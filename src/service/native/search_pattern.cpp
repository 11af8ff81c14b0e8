#include "service/native/search_pattern.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/strings.h"

namespace atl::service::native {
namespace {

constexpr std::string_view kSpecial = "\\.[]()*+?{}|^$";
constexpr std::uint64_t kMaxRepeat = 1000;

auto refuse(std::string_view why) {
  return fail(Code::kInvalidArgument, concat("the pattern is not possible: ", why), "bad_regex");
}

bool is_special(char c) {
  return kSpecial.find(c) != std::string_view::npos;
}

bool is_class(std::string_view name) {
  constexpr std::array<std::string_view, 12> kClasses{"alnum", "alpha", "blank", "cntrl",
                                                      "digit", "graph", "lower", "print",
                                                      "punct", "space", "upper", "xdigit"};
  return std::ranges::find(kClasses, name) != kClasses.end();
}

bool is_ascii(std::string_view character) {
  return character.size() == 1 && static_cast<unsigned char>(character[0]) < 0x80;
}

// The length of the character that begins here.
std::size_t character_size(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t size = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return std::min(size, text.size());
}

std::string utf8(std::uint32_t point) {
  if (point < 0x80) {
    return {static_cast<char>(point)};
  }
  const unsigned following = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  std::string out{static_cast<char>((0xff00U >> (following + 1)) | (point >> (6 * following)))};
  for (unsigned left = following; left-- > 0;) {
    out += static_cast<char>(0x80 | ((point >> (6 * left)) & 0x3f));
  }
  return out;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}

  Result<SearchPattern> run() {
    TRY_DO(take_flags());
    while (!rest_.empty()) {
      TRY_DO(take_one());
    }
    if (depth_ > 0) {
      return refuse("a parenthesis is not closed");
    }
    return SearchPattern{std::move(out_), ignore_case_};
  }

 private:
  bool take(std::string_view prefix) {
    if (!rest_.starts_with(prefix)) {
      return false;
    }
    rest_.remove_prefix(prefix.size());
    return true;
  }

  // (?i) and the like, at the beginning only.
  Result<> take_flags() {
    const auto end = rest_.starts_with("(?") ? rest_.find(')') : std::string_view::npos;
    const auto flags = end == std::string_view::npos ? "" : rest_.substr(2, end - 2);
    if (flags.empty() || flags.find_first_not_of("ims") != std::string_view::npos) {
      return {};
    }
    ignore_case_ = flags.contains('i');  // m and s change nothing within one line
    rest_.remove_prefix(end + 1);
    return {};
  }

  Result<> take_one() {
    const char c = rest_[0];
    if (c == '(') {
      return take_group();
    }
    if (c == '[') {
      return take_set();
    }
    if (c == '\\') {
      return take_escape();
    }
    if (c == '*' || c == '+' || c == '?' || c == '{') {
      return take_repeat();
    }
    if (c == ')' || c == '|' || c == '^' || c == '$') {
      rest_.remove_prefix(1);
      out_ += c;
      repeatable_ = c == ')';
      if (c == ')' && depth_-- == 0) {
        return refuse("a parenthesis is not open");
      }
      return {};
    }
    if (c == '.') {
      rest_.remove_prefix(1);
      add_atom(".");
      return {};
    }
    const std::size_t size = character_size(rest_);
    add_literal(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return {};
  }

  void add_atom(std::string_view text) {
    out_ += text;
    repeatable_ = true;
  }

  void add_literal(std::string_view character) {
    if (character.size() > 1) {
      add_atom(concat("(", character, ")"));  // so that a repeat means all of its bytes
    } else {
      add_atom(is_special(character[0]) ? concat("\\", character) : std::string{character});
    }
  }

  Result<> take_group() {
    if (++depth_ > 100) {
      return refuse("groups are nested too deeply");
    }
    repeatable_ = false;
    out_ += '(';
    const bool named =
        rest_.starts_with("(?P<") ||
        (rest_.starts_with("(?<") && !rest_.starts_with("(?<=") && !rest_.starts_with("(?<!"));
    if (named) {
      const auto end = rest_.find('>');
      if (end == std::string_view::npos) {
        return refuse("the name of a group does not end");
      }
      rest_.remove_prefix(end + 1);
      return {};
    }
    if (take("(?:") || (!rest_.starts_with("(?") && take("("))) {
      return {};
    }
    return refuse("look-around, atomic groups and flags inside are not supported");
  }

  Result<> take_repeat() {
    std::string repeat{rest_[0]};
    if (repeat == "{") {
      TRY(const auto counted, counted_repeat());
      if (!counted) {
        add_literal("{");
        rest_.remove_prefix(1);
        return {};
      }
      repeat = *counted;
    }
    if (!repeatable_) {
      return refuse(concat("nothing comes before \"", repeat, "\""));
    }
    rest_.remove_prefix(repeat.size());
    take("?");  // lazy
    if (rest_.starts_with('*') || rest_.starts_with('+') || rest_.starts_with('?')) {
      return refuse(concat("\"", repeat, rest_.substr(0, 1), "\" repeats a repeat"));
    }
    out_ += repeat;
    repeatable_ = false;
    return {};
  }

  // "{3}", "{3,}" or "{3,5}" at the front; nothing when the brace is only a brace.
  Result<std::optional<std::string>> counted_repeat() const {
    const auto end = rest_.find('}');
    const auto inside = end == std::string_view::npos ? "" : rest_.substr(1, end - 1);
    const auto comma = inside.find(',');
    const auto least = parse_u64(inside.substr(0, comma));
    const auto text = comma == std::string_view::npos ? "" : inside.substr(comma + 1);
    const auto most = text.empty() ? least : parse_u64(text);
    if (!least || !most) {
      return std::optional<std::string>{};
    }
    if (*least > kMaxRepeat || *most > kMaxRepeat || *most < *least) {
      return refuse(concat("repeats must be at most ", kMaxRepeat));
    }
    return std::optional{std::string{rest_.substr(0, end + 1)}};
  }

  Result<> take_escape() {
    if (take("\\Q")) {
      const auto end = rest_.find("\\E");
      std::string_view text = rest_.substr(0, end);
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 2);
      while (!text.empty()) {
        const std::size_t size = character_size(text);
        add_literal(text.substr(0, size));
        text.remove_prefix(size);
      }
      return {};
    }
    if (rest_.size() < 2) {
      return refuse("it ends with a backslash");
    }
    const char c = rest_[1];
    if (c == 'd' || c == 'D') {
      rest_.remove_prefix(2);
      add_atom(c == 'd' ? "[0-9]" : "[^0-9]");
      return {};
    }
    if (std::string_view{"wWsS"}.contains(c)) {
      rest_.remove_prefix(2);
      add_atom(concat("\\", c));
      return {};
    }
    if (std::string_view{"bBAz"}.contains(c)) {
      rest_.remove_prefix(2);
      out_ += c == 'A' ? "^" : c == 'z' ? "$" : concat("\\", c);
      repeatable_ = false;
      return {};
    }
    TRY(const auto character, escaped_character());
    add_literal(character);
    return {};
  }

  // "\n", "\x41", "\x{20ac}" or a sign behind a backslash, as the character it means.
  Result<std::string> escaped_character() {
    const char c = rest_.size() < 2 ? '\0' : rest_[1];
    constexpr std::string_view kNames = "tnrfva";
    constexpr std::string_view kValues = "\t\n\r\f\v\a";
    if (const auto at = kNames.find(c); c != '\0' && at != std::string_view::npos) {
      rest_.remove_prefix(2);
      return std::string{kValues[at]};
    }
    if (c == 'x') {
      return hexadecimal_character();
    }
    if (c >= '1' && c <= '9') {
      return refuse("back references are not supported");
    }
    const bool sign = c > ' ' && c < 0x7f && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
                      !(c >= 'A' && c <= 'Z');
    if (!sign && c != ' ') {
      return refuse("it has an unknown escape");
    }
    rest_.remove_prefix(2);
    return std::string{c};
  }

  Result<std::string> hexadecimal_character() {
    const bool braces = rest_.starts_with("\\x{");
    const auto end = braces ? rest_.find('}') : std::min<std::size_t>(rest_.size(), 4);
    const std::size_t begin = braces ? 3 : 2;
    const auto digits = end == std::string_view::npos ? "" : rest_.substr(begin, end - begin);
    std::uint32_t point = 0;
    for (const char digit : digits) {
      const auto value = std::string_view{"0123456789abcdef"}.find(to_lower({&digit, 1}));
      if (value == std::string_view::npos || (point = point * 16 + value) > 0x10ffff) {
        return refuse("a hexadecimal escape is malformed");
      }
    }
    if (digits.empty() || (!braces && digits.size() != 2) || point == 0) {
      return refuse("a hexadecimal escape is malformed");
    }
    rest_.remove_prefix(end + (braces ? 1 : 0));
    return utf8(point);
  }

  // [..]: POSIX has no escapes in there, only places where "]", "^" and "-" stand for themselves.
  Result<> take_set() {
    rest_.remove_prefix(1);
    Set set{.negated = take("^")};
    for (bool first = true; first || !rest_.starts_with(']'); first = false) {
      if (rest_.empty()) {
        return refuse("a bracket is not closed");
      }
      TRY_DO(take_set_item(set));
    }
    rest_.remove_prefix(1);
    if (set.negated && !set.characters.empty()) {
      return refuse("characters beyond ASCII cannot be excluded");
    }
    add_atom(set.posix());
    return {};
  }

  struct Set {
    bool negated = false;
    std::string items;
    bool bracket = false;
    bool caret = false;
    bool dash = false;
    std::string characters;  // beyond ASCII: "|é|ü"

    void add(char c) {
      if (c == ']' || c == '^' || c == '-') {
        (c == ']' ? bracket : c == '^' ? caret : dash) = true;
      } else if (c == '[') {
        items += "[.[.]";
      } else {
        items += c;
      }
    }
    std::string posix() const {
      std::string inside = concat(bracket ? "]" : "", items);
      if (caret && inside.empty() && !negated && !dash) {
        return characters.empty() ? "\\^" : concat("(\\^", characters, ")");
      }
      // A caret may be anywhere but in front; a dash in front or at the end.
      inside = caret && inside.empty() && !negated ? "-^" : inside + (caret ? "^" : "");
      inside += dash && !inside.starts_with("-^") ? "-" : "";
      const std::string set = inside.empty() ? "" : concat("[", negated ? "^" : "", inside, "]");
      return characters.empty() ? set
             : set.empty()      ? concat("(", characters.substr(1), ")")
                                : concat("(", set, characters, ")");
    }
  };

  Result<> take_set_item(Set& set) {
    // "[:" that nothing closes is two characters like others.
    if (const auto end = rest_.find(":]", 2);
        rest_.starts_with("[:") && end != std::string_view::npos) {
      if (!is_class(rest_.substr(2, end - 2))) {
        return refuse("a bracket has a class that is not known");
      }
      set.items += rest_.substr(0, end + 2);
      rest_.remove_prefix(end + 2);
      return {};
    }
    if (take("\\d")) {
      set.items += "0-9";
      return {};
    }
    if (take("\\w")) {
      set.items += "[:alnum:]_";
      return {};
    }
    if (take("\\s")) {
      set.items += "[:space:]";
      return {};
    }
    TRY(const auto from, set_character());
    if (!rest_.starts_with('-') || rest_.starts_with("-]") || rest_.size() < 2) {
      if (from.size() == 1) {
        set.add(from[0]);
      } else {
        set.characters += concat("|", from);
      }
      return {};
    }
    rest_.remove_prefix(1);
    TRY(const auto to, set_character());
    if (!is_ascii(from) || !is_ascii(to) || from[0] > to[0]) {
      return refuse("a range in a bracket must be within ASCII and ascend");
    }
    set.items += concat("[.", from, ".]-[.", to, ".]");
    return {};
  }

  Result<std::string> set_character() {
    if (rest_.starts_with('\\')) {
      return escaped_character();
    }
    const std::size_t size = character_size(rest_);
    std::string character{rest_.substr(0, size)};
    rest_.remove_prefix(size);
    return character;
  }

  std::string_view rest_;
  std::string out_;
  bool ignore_case_ = false;
  bool repeatable_ = false;
  int depth_ = 0;
};

Result<> check(std::string_view pattern) {
  if (pattern.empty() || pattern.find('\0') != std::string_view::npos) {
    return refuse("it is empty or has a NUL byte");
  }
  return {};
}

}  // namespace

Result<SearchPattern> translate_regex(std::string_view pattern) {
  TRY_DO(check(pattern));
  // Else what looks like the rest of a character could be a back reference.
  if (!is_utf8(pattern)) {
    return refuse("it is not UTF-8");
  }
  return Translator{pattern}.run();
}

Result<SearchPattern> quote_text(std::string_view text) {
  TRY_DO(check(text));
  SearchPattern pattern;
  for (const char c : text) {
    pattern.regex += is_special(c) ? concat("\\", c) : std::string{c};
  }
  return pattern;
}

}  // namespace atl::service::native
