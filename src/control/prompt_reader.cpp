#include "control/prompt_reader.h"

#include <algorithm>

namespace atl::control {
namespace {

// How many of the last bytes of `text` are the beginning of `word`.
std::size_t overlap(std::string_view text, std::string_view word) {
  for (std::size_t size = std::min(text.size(), word.size() - 1); size > 0; --size) {
    if (text.ends_with(word.substr(0, size))) {
      return size;
    }
  }
  return 0;
}

}  // namespace

PromptReader::PromptReader(Ready ready, std::string token)
    : ready_(ready), token_(std::move(token)) {
  CHECK(!token_.empty());
}

std::string PromptReader::add(std::string_view bytes) {
  if (bytes.empty()) {
    return {};
  }
  if (ready_ == Ready::kSilence) {
    return std::string{bytes};
  }
  pending_ += bytes;
  return ready_ == Ready::kPrompts ? add_marked() : add_token();
}

// mark, one character, one space: anywhere, because nothing else prints the mark.
std::string PromptReader::add_marked() {
  std::string text;
  std::size_t begin = 0;
  for (;;) {
    const auto found = pending_.find(token_, begin);
    if (found == std::string::npos) {
      break;
    }
    const std::size_t end = found + token_.size() + 2;
    if (end > pending_.size()) {
      text.append(pending_, begin, found - begin);
      at_prompt_ = at_prompt_ && found == begin;
      pending_.erase(0, found);
      return text;
    }
    if (pending_[end - 1] != ' ') {
      text.append(pending_, begin, end - 2 - begin);
      begin = end - 2;
      continue;
    }
    text.append(pending_, begin, found - begin);
    begin = end;
    ++prompts_;
    at_prompt_ = true;
    wants_more_ = pending_[end - 2] != '>';
  }
  const std::size_t kept = overlap(std::string_view{pending_}.substr(begin), token_);
  const std::size_t end = pending_.size() - kept;
  if (end > begin) {
    text.append(pending_, begin, end - begin);
    at_prompt_ = false;
  }
  pending_.erase(0, end);
  return text;
}

// A token is a prompt at the beginning of a line, after another prompt, and at the very end.
std::string PromptReader::add_token() {
  std::string text;
  std::size_t begin = 0;
  const auto give = [&](std::size_t end) {
    if (end > begin) {
      text.append(pending_, begin, end - begin);
      line_start_ = text.back() == '\n';
    }
    begin = end;
  };
  prompts_ -= at_prompt_ ? 1 : 0;  // the one kept back is decided again
  at_prompt_ = false;
  for (;;) {
    const auto found = pending_.find(token_, begin);
    if (found == std::string::npos) {
      break;
    }
    give(found);
    if (found + token_.size() == pending_.size()) {
      ++prompts_;
      at_prompt_ = true;
      pending_.erase(0, found);
      return text;
    }
    if (line_start_) {
      ++prompts_;
      begin = found + token_.size();
    } else {
      give(found + token_.size());
    }
  }
  give(pending_.size() - overlap(std::string_view{pending_}.substr(begin), token_));
  pending_.erase(0, begin);
  return text;
}

std::string PromptReader::finish() {
  std::string rest;
  if (!(ready_ == Ready::kToken && at_prompt_)) {
    rest = std::move(pending_);
  }
  pending_.clear();
  return rest;
}

}  // namespace atl::control
