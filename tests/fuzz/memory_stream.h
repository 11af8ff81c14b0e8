// A peer that has said everything it will ever say: reads give it out in pieces, then the end.
#pragma once

#include <cstring>

#include "fuzz.h"
#include "io/stream.h"

namespace atl::fuzz {

class MemoryStream final : public io::Stream {
 public:
  MemoryStream(std::string_view bytes, Cut cut) : parts_(pieces(bytes, cut)) {}

  Task<std::size_t> read(std::span<char> buffer) override {
    if (at_ == parts_.size()) {
      co_return std::size_t{0};
    }
    const auto taken = parts_[at_].substr(0, buffer.size());
    std::memcpy(buffer.data(), taken.data(), taken.size());
    parts_[at_].remove_prefix(taken.size());
    at_ += parts_[at_].empty() ? 1 : 0;
    co_return taken.size();
  }
  Task<> write(std::string_view bytes) override {
    written_bytes_ += bytes.size();
    co_return ok();
  }
  Task<> write(std::string_view first, std::string_view second) override {
    written_bytes_ += first.size() + second.size();
    co_return ok();
  }
  Task<> wait_readable() override { co_return ok(); }
  Result<> finish_writing() override { return {}; }
  std::size_t written_bytes() const { return written_bytes_; }

 private:
  std::vector<std::string_view> parts_;
  std::size_t at_ = 0;
  std::size_t written_bytes_ = 0;
};

}  // namespace atl::fuzz
