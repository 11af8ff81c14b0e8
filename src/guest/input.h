// What clients wrote and the process has not read yet.
//
// Bounded by its writers, not by itself: full() tells them to stop reading their clients, and
// `on_room` tells them to go on. When the process closes its standard input the rest is thrown
// away and writing stays harmless.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "guest/loop.h"

namespace atl::guest {

class Input {
 public:
  explicit Input(Loop& loop) : watch_(loop) {}
  // An end of input on a terminal is the control character, not a closed descriptor.
  Result<> start(Fd fd, bool terminal, std::function<void()> on_room);

  void write(std::string_view bytes);
  void end();
  void close();
  bool open() const { return static_cast<bool>(fd_) && !ending_; }
  bool full() const;

 private:
  void flush();

  Fd fd_;
  Watch watch_;
  bool terminal_ = false;
  bool ending_ = false;
  std::string pending_;
  std::size_t written_bytes_ = 0;  // of pending_
  std::function<void()> on_room_;
};

}  // namespace atl::guest
