// DescriptorGate: waits for a descriptor that we share with strangers.
//
// Standard input and output often share one open file description with the shell, so setting
// O_NONBLOCK on them (which the reactor does to everything it watches) would change them for other
// processes too and outlive us. The gate therefore watches a private epoll descriptor that
// contains the shared one; the shared one stays as it is. Regular files are always ready, as epoll
// refuses them.
#pragma once

#include <memory>

#include "base/fd.h"
#include "io/reactor.h"

namespace atl::cli {

class DescriptorGate {
 public:
  enum class Direction : unsigned char { kReadable, kWritable };

  // `fd` stays its owner's and must stay open.
  static Result<std::unique_ptr<DescriptorGate>> open(io::Reactor& reactor, int fd,
                                                      Direction direction);
  // Returns when one read, or one write of at most PIPE_BUF bytes, will not block.
  Task<> ready();
  bool always_ready() const { return watch_ == nullptr; }

 private:
  DescriptorGate(int fd, Direction direction) : fd_(fd), direction_(direction) {}

  int fd_;
  Direction direction_;
  Fd epoll_;
  std::unique_ptr<io::FdWatch> watch_;
};

// Reads from a shared descriptor; 0 at the end.
class SharedReader {
 public:
  static Result<std::unique_ptr<SharedReader>> open(io::Reactor& reactor, int fd);
  Task<std::size_t> read(std::span<char> buffer);

 private:
  SharedReader(int fd, std::unique_ptr<DescriptorGate> gate) : fd_(fd), gate_(std::move(gate)) {}
  int fd_;
  std::unique_ptr<DescriptorGate> gate_;
};

// Writes to a shared descriptor without ever blocking the loop, so that Ctrl-C is heard while the
// reader of our output is slow. A reader that has gone is kAborted with reason "broken_pipe".
class SharedWriter {
 public:
  static Result<std::unique_ptr<SharedWriter>> open(io::Reactor& reactor, int fd);
  Task<> write(std::string_view bytes);

 private:
  SharedWriter(int fd, std::unique_ptr<DescriptorGate> gate) : fd_(fd), gate_(std::move(gate)) {}
  int fd_;
  std::unique_ptr<DescriptorGate> gate_;
};

}  // namespace atl::cli
