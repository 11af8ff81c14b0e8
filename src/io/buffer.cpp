#include "io/buffer.h"

#include <vector>

namespace atl::io {
namespace {

constexpr std::size_t kMaxSpares = 16;  // of a thread

thread_local std::vector<std::unique_ptr<char[]>> spares;

}  // namespace

Buffer::Buffer() {
  if (spares.empty()) {
    bytes_ = std::make_unique_for_overwrite<char[]>(kBytes);
    return;
  }
  bytes_ = std::move(spares.back());
  spares.pop_back();
}

Buffer::~Buffer() {
  if (bytes_ && spares.size() < kMaxSpares) {
    spares.push_back(std::move(bytes_));
  }
}

}  // namespace atl::io
