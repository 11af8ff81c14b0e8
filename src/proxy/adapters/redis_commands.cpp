#include "proxy/adapters/redis_commands.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"

namespace atl::proxy::adapters {
namespace {

constexpr std::size_t kMaxHeaderBytes = 32;
constexpr std::size_t kMaxInlineBytes = std::size_t{64} * 1024;
constexpr std::size_t kMaxNameBytes = 64;
constexpr std::size_t kMaxArguments = std::size_t{1024} * 1024;
constexpr std::uint64_t kMaxBodyBytes = 512ULL << 20;
// Of a command that is rewritten.
constexpr std::size_t kMaxWords = 32;
constexpr std::size_t kMaxWordBytes = 4096;
constexpr std::string_view kEnd = "\r\n";

std::unexpected<Error> malformed() {
  return fail(Code::kInvalidArgument, "this is not the Redis protocol");
}

bool is_judged(std::string_view name) {
  return equals_ignore_case(name, "AUTH") || equals_ignore_case(name, "HELLO") ||
         equals_ignore_case(name, "CONFIG") || equals_ignore_case(name, "ACL");
}

std::string encode(const std::vector<std::string>& words) {
  std::string out = concat("*", words.size(), kEnd);
  for (const std::string& word : words) {
    out += concat("$", word.size(), kEnd, word, kEnd);
  }
  return out;
}

void wipe(std::string& text) {
  ::explicit_bzero(text.data(), text.size());
}

}  // namespace

RedisCommands::RedisCommands(std::string_view username, std::string_view password)
    : username_(username), password_(password) {}

RedisCommands::~RedisCommands() {
  wipe(password_);
}

std::string RedisCommands::login() const {
  return username_.empty() ? encode({"AUTH", password_}) : encode({"AUTH", username_, password_});
}

Result<> RedisCommands::feed(std::string_view bytes, std::string& out) {
  pending_.erase(0, std::exchange(begin_, 0));
  pending_ += bytes;
  for (;;) {
    TRY(const bool went_on, step(out));
    if (!went_on) {
      return {};
    }
  }
}

Result<bool> RedisCommands::step(std::string& out) {
  switch (state_) {
    case State::kCommand:
      return begin_command(out);
    case State::kName:
      return read_name(out);
    case State::kCollect:
      return collect(out);
    case State::kHeader:
      return pass_header(out);
    case State::kBody:
      return pass_body(out);
  }
  return malformed();
}

// The next line of what is pending, without its end; not complete: more bytes are needed.
Result<std::string_view> RedisCommands::line(std::size_t max_bytes, bool& complete) {
  const auto end = rest().substr(0, max_bytes + kEnd.size()).find('\n');
  complete = end != std::string_view::npos;
  if (!complete) {
    if (rest().size() >= max_bytes + kEnd.size()) {
      return malformed();
    }
    return std::string_view{};
  }
  if (end == 0 || rest()[end - 1] != '\r') {
    return malformed();
  }
  return rest().substr(0, end - 1);
}

Result<bool> RedisCommands::begin_command(std::string& out) {
  if (rest().empty()) {
    return false;
  }
  bool complete = false;
  if (rest().front() != '*') {
    TRY(const auto text, line(kMaxInlineBytes, complete));
    if (!complete) {
      return false;
    }
    const std::size_t size = text.size() + kEnd.size();
    TRY_DO(inline_command(text, out));
    advance(size);
    return true;
  }
  TRY(const auto text, line(kMaxHeaderBytes, complete));
  if (!complete) {
    return false;
  }
  const auto count = parse_u64(text.substr(1));
  if (!count || *count > kMaxArguments) {
    return malformed();
  }
  const std::size_t size = text.size() + kEnd.size();
  if (*count > 0) {
    head_ = rest().substr(0, size);
    arguments_left_ = *count;
    words_.clear();
    state_ = State::kName;
  }
  advance(size);  // one without arguments is nothing, and has no answer
  return true;
}

// A whole argument with its header, which must be short.
Result<bool> RedisCommands::read_argument(std::string& argument) {
  bool complete = false;
  TRY(const auto header, line(kMaxHeaderBytes, complete));
  if (!complete) {
    return false;
  }
  const auto size = header.starts_with('$') ? parse_u64(header.substr(1)) : std::nullopt;
  if (!size || *size > kMaxWordBytes) {
    return malformed();
  }
  const std::size_t begin = header.size() + kEnd.size();
  if (rest().size() < begin + *size + kEnd.size()) {
    return false;
  }
  if (rest().substr(begin + *size, kEnd.size()) != kEnd) {
    return malformed();
  }
  argument = rest().substr(begin, *size);
  advance(begin + *size + kEnd.size());
  return true;
}

Result<bool> RedisCommands::read_name(std::string& out) {
  std::string name;
  TRY(const bool complete, read_argument(name));
  if (!complete) {
    return false;
  }
  if (name.size() > kMaxNameBytes) {
    return malformed();
  }
  --arguments_left_;
  if (is_judged(name)) {
    if (arguments_left_ >= kMaxWords) {
      return malformed();
    }
    words_.push_back(std::move(name));
    state_ = State::kCollect;
    return true;
  }
  out += concat(head_, "$", name.size(), kEnd, name, kEnd);
  state_ = arguments_left_ == 0 ? State::kCommand : State::kHeader;
  return true;
}

Result<bool> RedisCommands::collect(std::string& out) {
  if (arguments_left_ > 0) {
    std::string word;
    TRY(const bool complete, read_argument(word));
    if (!complete) {
      return false;
    }
    words_.push_back(std::move(word));
    --arguments_left_;
    return true;
  }
  state_ = State::kCommand;
  TRY_DO(rewrite(std::exchange(words_, {}), out));
  return true;
}

Result<bool> RedisCommands::pass_header(std::string& out) {
  bool complete = false;
  TRY(const auto header, line(kMaxHeaderBytes, complete));
  if (!complete) {
    return false;
  }
  const auto size = header.starts_with('$') ? parse_u64(header.substr(1)) : std::nullopt;
  if (!size || *size > kMaxBodyBytes) {
    return malformed();
  }
  const std::size_t header_bytes = header.size() + kEnd.size();
  out += rest().substr(0, header_bytes);
  advance(header_bytes);
  body_left_ = *size + kEnd.size();
  --arguments_left_;
  state_ = State::kBody;
  return true;
}

// The end of an argument is the server's to check: it counts as we do.
bool RedisCommands::pass_body(std::string& out) {
  const std::size_t size = std::min<std::uint64_t>(body_left_, rest().size());
  out += rest().substr(0, size);
  advance(size);
  body_left_ -= size;
  if (body_left_ > 0) {
    return false;
  }
  state_ = arguments_left_ == 0 ? State::kCommand : State::kHeader;
  return true;
}

Result<> RedisCommands::inline_command(std::string_view text, std::string& out) {
  std::vector<std::string> words;
  for (const std::string_view word : split(text, ' ')) {
    if (!trim(word).empty()) {
      words.emplace_back(trim(word));
    }
  }
  if (words.empty()) {
    out += concat(text, kEnd);
    return {};
  }
  // Quotes and tabs are a second way to write a word: what looks judged must look so to the server
  // too.
  if (words.front().find_first_of("\"'\\\t") != std::string::npos) {
    return malformed();
  }
  if (!is_judged(words.front())) {
    out += concat(text, kEnd);
    return {};
  }
  if (text.find_first_of("\"'\\\t") != text.npos || words.size() > kMaxWords) {
    return malformed();
  }
  return rewrite(std::move(words), out);
}

Result<> RedisCommands::rewrite(std::vector<std::string> words, std::string& out) {
  const std::string& name = words.front();
  if (equals_ignore_case(name, "AUTH")) {
    notes_.emplace_back("AUTH replaced");
    out += login();
    return {};
  }
  if (equals_ignore_case(name, "HELLO")) {
    for (std::size_t i = 2; i < words.size(); ++i) {
      if (equals_ignore_case(words[i], "AUTH") && i + 2 < words.size()) {
        words[i + 1] = username_.empty() ? "default" : username_;
        words[i + 2] = password_;
        notes_.emplace_back("HELLO AUTH replaced");
        i += 2;
      } else if (equals_ignore_case(words[i], "SETNAME")) {
        ++i;
      }
    }
    out += encode(words);
    wipe(words.back());
    return {};
  }
  const bool harmless =
      equals_ignore_case(name, "ACL") && words.size() >= 2 &&
      (equals_ignore_case(words[1], "WHOAMI") || equals_ignore_case(words[1], "CAT"));
  if (!harmless) {
    return refuse(words, out);
  }
  out += encode(words);
  return {};
}

Result<> RedisCommands::refuse(const std::vector<std::string>& words, std::string& out) {
  const std::string name = to_lower(words.front());
  notes_.push_back(concat(name, " refused"));
  out += encode({concat("atoll:", name, "-is-not-allowed-with-a-stored-credential")});
  return {};
}

}  // namespace atl::proxy::adapters
