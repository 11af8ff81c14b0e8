// One channel of an SSH session: two streams of bytes each way, and requests beside them.
//
// Both sides use it. At most one read, one write and one next_request() may be under way at a time
// (of each stream, for reads). Destroying it closes the channel. Loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/task.h"

namespace atl::ssh {

class Link;

struct ChannelRequest {
  enum class Kind : std::uint8_t {
    kTerminal,     // text: TERM; rows and columns
    kEnvironment,  // text: name; value
    kShell,
    kExec,       // text: the command
    kSubsystem,  // text: its name
    kResize,     // rows and columns
    kSignal,     // text: its name without SIG
    kOther,      // agent, X11 and what nobody knows
  };
  Kind kind = Kind::kOther;
  std::string text;
  std::string value;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
};

// How the program on the other end ended.
struct Exit {
  std::optional<int> status;
  std::string signal;  // without SIG
  bool core = false;
};

class Channel {
 public:
  struct Impl;
  explicit Channel(std::unique_ptr<Impl> impl);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // At least one byte, or 0 at the end.
  Task<std::size_t> read(std::span<char> buffer);
  Task<std::size_t> read_error(std::span<char> buffer);
  // Everything; waits for the peer's window. The bytes must stay valid until it returns.
  Task<> write(std::string_view bytes);
  Task<> write_error(std::string_view bytes);
  Result<> finish_writing();
  bool closed() const;

  // A server's side. Fails with kUnavailable when the channel is closed. Each request is answered
  // before the next one is asked for; one that is not is refused.
  Task<ChannelRequest> next_request();
  void answer(bool accepted);
  void send_exit(const Exit& exit);
  // Ends when the peer has taken what was written, or has gone.
  Task<> flush();

  // A client's side. False: refused.
  Task<bool> request(ChannelRequest request);
  // Ends when the server has closed the channel.
  Task<> wait_closed();
  const std::optional<Exit>& exit() const;

  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace atl::ssh
