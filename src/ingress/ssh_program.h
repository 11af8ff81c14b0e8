// A program in a sandbox at the other end of an SSH channel.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/contexts.h"
#include "io/stream.h"
#include "ssh/channel.h"

namespace atl::ingress {

struct ProgramRequest {
  std::vector<std::string> command;
  control::StringMap env;
  std::optional<guest::PtySize> terminal;
};

// Wakes the sandbox, runs the program and ends with it; when the channel is closed first, the
// program is killed. What goes wrong is told on the channel's error stream.
Task<> run_program(io::Reactor& reactor, control::Sandboxes& sandboxes, control::SandboxRef sandbox,
                   ProgramRequest program, ssh::Channel& channel);

// A connection into a sandbox: a use of it as long as it lives.
class UsingStream final : public io::Stream {
 public:
  UsingStream(io::Reactor& reactor, Fd fd, std::optional<control::Sandboxes::Use> use)
      : stream_(reactor, std::move(fd)), use_(std::move(use)) {}
  Task<std::size_t> read(std::span<char> buffer) override { return stream_.read(buffer); }
  Task<> write(std::string_view bytes) override { return stream_.write(bytes); }
  Task<> write(std::string_view first, std::string_view second) override {
    return stream_.write(first, second);
  }
  Task<> wait_readable() override { return stream_.wait_readable(); }
  Result<> finish_writing() override { return stream_.finish_writing(); }

 private:
  io::FdStream stream_;
  std::optional<control::Sandboxes::Use> use_;
};

}  // namespace atl::ingress
