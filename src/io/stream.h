// Byte streams: the one thing every protocol speaks over.
//
// Stream is virtual at the room border; FdStream is TCP, unix sockets, pipes and terminals alike.
// At most one read and one write may be under way at a time on one stream. A cancelled operation
// leaves the stream in an unknown position: close it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/task.h"
#include "io/reactor.h"

namespace atl::io {

class Stream {
 public:
  virtual ~Stream() = default;
  // Reads at least one byte unless the peer has finished (then 0).
  virtual Task<std::size_t> read(std::span<char> buffer) = 0;
  // Writes everything. The bytes must stay valid until it returns.
  virtual Task<> write(std::string_view bytes) = 0;
  // Both parts in order, in one system call when possible.
  virtual Task<> write(std::string_view first, std::string_view second) = 0;
  // Ends when a read would not wait: bytes are there, or the peer has closed. Takes nothing out of
  // the stream, so it may be cancelled. Not while a read is under way.
  virtual Task<> wait_readable();
  // The same as read() and write(), with a descriptor beside the bytes: `passed` is set when one
  // came, and travels with the first byte. Only unix sockets can.
  virtual Task<std::size_t> read_passing(std::span<char> buffer, Fd& passed);
  virtual Task<> write_passing(std::string_view bytes, int passed);
  // Tells the peer that nothing more comes; reading goes on.
  virtual Result<> finish_writing() = 0;
};

class FdStream final : public Stream {
 public:
  // Takes a connected, non-blocking descriptor.
  FdStream(Reactor& reactor, Fd fd);
  Task<std::size_t> read(std::span<char> buffer) override;
  Task<> write(std::string_view bytes) override;
  Task<> write(std::string_view first, std::string_view second) override;
  Task<std::size_t> read_passing(std::span<char> buffer, Fd& passed) override;
  Task<> write_passing(std::string_view bytes, int passed) override;
  Result<> finish_writing() override;
  // Writes what fits without waiting, and drops the rest: for farewells nobody waits for.
  void write_now(std::string_view bytes);
  int fd() const { return fd_.get(); }
  Task<> wait_readable() override;

 private:
  Fd fd_;
  FdWatch watch_;
};

// Fills the buffer or fails (kUnavailable when the peer closes before).
Task<> read_exactly(Stream& stream, std::span<char> buffer);

Task<std::unique_ptr<FdStream>> connect_unix(Reactor& reactor, std::string path);
// `host` is a literal IPv4 or IPv6 address (or "localhost").
Task<std::unique_ptr<FdStream>> connect_tcp(Reactor& reactor, std::string host, std::uint16_t port);

class Listener {
 public:
  static Result<Fd> bind_tcp(const std::string& host, std::uint16_t port);  // literal address
  static Result<Fd> bind_unix(const std::string& path, unsigned mode);      // replaces a stale one

  Listener(Reactor& reactor, Fd fd);  // a listening, non-blocking descriptor
  Task<std::unique_ptr<FdStream>> accept();
  std::uint16_t port() const;  // of a TCP listener
  int fd() const { return fd_.get(); }

 private:
  Reactor& reactor_;
  Fd fd_;
  FdWatch watch_;
};

// Waits for one of the given signals (blocked for the whole process by the constructor).
class SignalWatch {
 public:
  SignalWatch(Reactor& reactor, std::initializer_list<int> signals);
  Task<int> next();

 private:
  Fd fd_;
  FdWatch watch_;
};

}  // namespace atl::io
