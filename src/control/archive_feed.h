// The bytes of an archive between the loop, where they arrive, and a thread, where they are read.
//
// The loop offers pieces and waits when there are enough; the thread takes them and waits when
// there are none. A reader that checks low() between its steps hardly ever has to wait, so a slow
// client does not hold a thread; and all waiting of one step together has an end. Whoever offers
// must close in the end, whatever happened.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/task.h"
#include "oci/archive.h"

namespace atl::control {

class ArchiveFeed final : public oci::ByteSource {
 public:
  explicit ArchiveFeed(Loop& loop);

  // Loop thread.
  Task<> offer(std::string piece);  // waits for room
  void close(Result<> how);         // an error is what the reader gets after all pieces
  Task<> wait_until_filled();       // enough for a step of the reader, or closed

  // Any thread.
  bool low() const;  // reading on might wait
  void begin_step();
  Result<std::string_view> next() override;

 private:
  // Shared with callbacks that are still on their way to the loop.
  struct State {
    explicit State(Loop& loop_of_offers) : loop(loop_of_offers) {}
    Loop& loop;
    mutable std::mutex mutex;
    std::condition_variable arrived;
    std::deque<std::string> pieces;
    std::size_t bytes = 0;
    std::optional<Result<>> closed;
    // Loop thread only.
    Event room;
    Event filled;
  };

  const std::shared_ptr<State> state_;
  // The reader's.
  std::string piece_;       // in hand
  Duration patience_left_;  // of this step
};

}  // namespace atl::control
