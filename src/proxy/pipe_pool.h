// Pipes for splice(2), lent to a connection only while it moves many bytes: two thousand idle
// connections hold none.
#pragma once

#include <optional>
#include <vector>

#include "base/fd.h"

namespace atl::proxy {

struct Pipe {
  Fd read_end;
  Fd write_end;
};

class PipePool {
 public:
  // Nothing when too many are out, or the kernel gives no more: the bytes are copied then.
  std::optional<Pipe> borrow();
  // REQUIRES: empty. One that may hold bytes is let go with forget().
  void give_back(Pipe pipe);
  void forget() { --lent_; }
  std::size_t lent() const { return lent_; }

 private:
  std::vector<Pipe> idle_;
  std::size_t lent_ = 0;
};

}  // namespace atl::proxy
