// A stream as a descriptor: libssh wants one, and what it is to speak over may be anything.
#pragma once

#include <memory>

#include "base/fd.h"
#include "io/stream.h"

namespace atl::ssh {

class Bridge {
 public:
  // The stream must outlive the bridge.
  static Result<std::unique_ptr<Bridge>> make(io::Reactor& reactor, io::Stream& stream);

  // The end for libssh; once.
  Fd take_descriptor() { return std::move(far_); }
  // Moves bytes both ways until either side has ended, then ends the other.
  Task<> run();

 private:
  Bridge(io::Reactor& reactor, io::Stream& stream, Fd near, Fd far)
      : stream_(stream), near_(reactor, std::move(near)), far_(std::move(far)) {}
  static Task<> pass_on(io::Stream& from, io::Stream& to, Event& ended);

  io::Stream& stream_;
  io::FdStream near_;
  Fd far_;
};

}  // namespace atl::ssh
