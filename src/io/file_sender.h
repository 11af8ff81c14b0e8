// Files into sockets by sendfile(2): the pages go out as they lie in the cache, no byte is copied.
//
// The file is one that a stranger opened, in a sandbox. So it is looked at before it is read
// (base/plain_file.h); every call that could wait for its disk runs on a thread, and each such call
// is short, because it cannot be cancelled; it is closed elsewhere (io/foreign_fd.h). While the
// socket is full nothing of a thread is taken: that is waited for on the loop. So is a thread, and
// one owner never has more than half of them. Who wants to send reserves a place before it asks for
// the file, and copies when there is none: a disk that hangs takes threads, but not the server.
// Loop thread only.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "io/foreign_fd.h"
#include "io/offload.h"
#include "io/reactor.h"

namespace atl::io {

class FileSender {
 public:
  // At most so many files, and so many of them on threads: as many as the pool has.
  FileSender(Reactor& reactor, OffloadPool& threads, std::size_t files, std::size_t at_a_time)
      : reactor_(reactor), threads_(threads), files_(files), at_a_time_(at_a_time) {}
  FileSender(const FileSender&) = delete;
  FileSender& operator=(const FileSender&) = delete;

  // Leave to send one file of `owner` at a time. The sender outlives it.
  class Place {
   public:
    Place(FileSender& sender, std::string owner) : sender_(sender), owner_(std::move(owner)) {
      ++sender_.places_;
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { --sender_.places_; }
    const std::string& owner() const { return owner_; }

   private:
    FileSender& sender_;
    const std::string owner_;
  };
  // Null when one more is a bad idea: they are many, or the threads do not get on.
  std::unique_ptr<Place> reserve(std::string owner);

  struct Piece {
    ForeignFd file;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    Duration stall_timeout{};       // of the socket, and of the wait for a thread; zero: none
    Counter* sent_bytes = nullptr;  // counted as they go
    std::uint64_t* sent = nullptr;  // the same
  };
  // Exactly those bytes into a connected, non-blocking socket that nobody else writes to meanwhile.
  // A file that ends before is kDataLoss, a socket that stalls kDeadlineExceeded.
  Task<> send(const Place& place, int socket, Piece piece);

 private:
  // A wish to have a thread.
  struct Turn {
    const std::string& owner;
    Instant since;
    Event granted;
  };

  Task<> wait_for_turn(Turn& turn, Duration timeout);
  void grant_turns();
  void end_turn(const std::string& owner);
  bool is_stuck() const;

  Reactor& reactor_;
  OffloadPool& threads_;
  const std::size_t files_;
  const std::size_t at_a_time_;
  std::size_t places_ = 0;
  std::deque<Turn*> waiting_;                     // in their order
  std::map<std::string, std::size_t> on_thread_;  // by owner
  std::size_t running_ = 0;
};

}  // namespace atl::io
