#include "proxy/pipe_pool.h"

#include <fcntl.h>
#include <unistd.h>

#include "proxy/limits.h"

namespace atl::proxy {

std::optional<Pipe> PipePool::borrow() {
  if (lent_ >= kMaxPipes) {
    return std::nullopt;
  }
  if (!idle_.empty()) {
    Pipe pipe = std::move(idle_.back());
    idle_.pop_back();
    ++lent_;
    return pipe;
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return std::nullopt;
  }
  Pipe pipe{Fd{ends[0]}, Fd{ends[1]}};
  // Beyond the user's share of pipe memory it stays small, which only makes it slower.
  ::fcntl(pipe.write_end.get(), F_SETPIPE_SZ, static_cast<int>(kPipeBytes));
  ++lent_;
  return pipe;
}

void PipePool::give_back(Pipe pipe) {
  --lent_;
  if (idle_.size() < kMaxIdlePipes) {
    idle_.push_back(std::move(pipe));
  }
}

}  // namespace atl::proxy
