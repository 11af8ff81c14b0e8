// How many of something there are, by name: for limits.
#pragma once

#include <map>
#include <string>

namespace atl::ingress {

// One more of something with a name, while it lives.
class Counted {
 public:
  using Counts = std::map<std::string, std::size_t, std::less<>>;
  Counted(Counts& counts, const std::string& name)
      : counts_(counts), entry_(counts.try_emplace(name, 0).first) {
    ++entry_->second;
  }
  ~Counted() {
    if (--entry_->second == 0) {
      counts_.erase(entry_);
    }
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  std::size_t count() const { return entry_->second; }

 private:
  Counts& counts_;
  Counts::iterator entry_;
};

}  // namespace atl::ingress
