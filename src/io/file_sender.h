// Files into sockets by sendfile(2): the pages go out as they lie in the cache, no byte is copied.
//
// The file is one that a stranger opened, in a sandbox. So it is looked at before it is read
// (base/plain_file.h); every call that could wait for its disk, the last close included, runs on a
// thread; and each such call is short, because it cannot be cancelled. While the socket is full
// nothing of a thread is taken: that is waited for on the loop. When many are being sent, callers
// copy instead (has_room): a disk that hangs takes the threads, but not the server. Loop thread
// only.
#pragma once

#include "base/fd.h"
#include "base/metrics.h"
#include "io/offload.h"
#include "io/reactor.h"

namespace atl::io {

class FileSender {
 public:
  // The pool's queue must have room for one job of every connection.
  FileSender(Reactor& reactor, OffloadPool& threads, std::size_t many)
      : reactor_(reactor), threads_(threads), many_(many) {}
  FileSender(const FileSender&) = delete;
  FileSender& operator=(const FileSender&) = delete;

  // Whether one more is a good idea. Between this and send() others may come; they are few.
  bool has_room() const { return sending_ < many_; }

  struct Piece {
    Fd file;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    Duration stall_timeout{};       // how long the socket may take nothing; zero: for ever
    Counter* sent_bytes = nullptr;  // counted as they go
  };
  // Exactly those bytes into a connected, non-blocking socket that nobody else writes to meanwhile.
  // A file that ends before is kDataLoss, a socket that stalls kDeadlineExceeded.
  Task<> send(int socket, Piece piece);

 private:
  Task<> send_all(int socket, Piece& piece);

  Reactor& reactor_;
  OffloadPool& threads_;
  const std::size_t many_;
  std::size_t sending_ = 0;
};

}  // namespace atl::io
