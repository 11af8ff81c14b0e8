// How many connections to servers one client connection has open, so that a client cannot turn one
// descriptor into as many as it has streams.
#pragma once

#include <memory>
#include <utility>

#include "base/task.h"

namespace atl::proxy::http {

struct UpstreamCount {
  std::size_t live = 0;
  Event freed;  // there may be room, or a connection to share
};

// Held by a connection, from before it is dialled until it is closed. A link may outlive its pool,
// therefore the count is shared.
class UpstreamPlace {
 public:
  explicit UpstreamPlace(std::shared_ptr<UpstreamCount> count) : count_(std::move(count)) {
    ++count_->live;
  }
  UpstreamPlace(UpstreamPlace&&) noexcept = default;
  UpstreamPlace& operator=(UpstreamPlace&&) = delete;
  ~UpstreamPlace() {
    if (count_) {
      --count_->live;
      count_->freed.set();
    }
  }

 private:
  std::shared_ptr<UpstreamCount> count_;
};

}  // namespace atl::proxy::http
