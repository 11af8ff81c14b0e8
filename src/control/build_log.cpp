#include "control/build_log.h"

#include <algorithm>

#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {

void BuildLog::append(std::string line) {
  line += '\n';
  bytes_ += line.size();
  lines_.push_back(std::move(line));
  while (bytes_ > kMaxBuildLogBytes && lines_.size() > 1) {
    bytes_ -= lines_.front().size();
    lines_.pop_front();
    ++first_;
  }
  changed_.set();
}

void BuildLog::add(const Json& record) {
  append(record.dump());
}

void BuildLog::note(std::string_view text) {
  add(Json::object({{"type", "note"}, {"text", to_valid_utf8(text)}}));
}

void BuildLog::end(const Result<>& outcome, Json last_record) {
  CHECK(!outcome_);
  outcome_ = outcome;
  add(last_record);
}

std::vector<std::string> BuildLog::read(std::uint64_t from, std::size_t limit) const {
  std::vector<std::string> out;
  for (std::uint64_t at = std::max(from, first_); at < first_ + lines_.size() && out.size() < limit;
       ++at) {
    const std::string& line = lines_[at - first_];
    out.push_back(line.substr(0, line.size() - 1));
  }
  return out;
}

Task<std::string> BuildLog::next(std::uint64_t& from) {
  constexpr std::size_t kPieceBytes = std::size_t{64} * 1024;
  for (;;) {
    std::string piece;
    if (from < first_) {
      piece = Json::object({{"type", "missed"}, {"records", first_ - from}}).dump() + "\n";
      from = first_;
    }
    while (from < first_ + lines_.size() && piece.size() < kPieceBytes) {
      piece += lines_[from - first_];
      ++from;
    }
    if (!piece.empty() || ended()) {
      co_return std::move(piece);
    }
    changed_.clear();
    CO_TRY_DO(co_await changed_.wait());
  }
}

}  // namespace atl::control
