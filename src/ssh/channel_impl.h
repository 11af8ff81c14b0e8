// A channel as libssh has it, and what its callbacks have noted.
#pragma once

#include <deque>

#include "ssh/channel.h"
#include "ssh/link_impl.h"

namespace atl::ssh {

struct Channel::Impl {
  Impl(Link& its_link, ssh_channel its_handle);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // False: too many are waiting.
  bool push(ChannelRequest request, MessageHandle message);

  Task<std::size_t> read(std::span<char> buffer, bool error);
  Task<> write(std::string_view bytes, bool error);
  int send_request(const ChannelRequest& request);

  struct Waiting {
    ChannelRequest request;
    MessageHandle message;  // none: no answer is wanted
  };

  Link& link;
  ssh_channel handle;
  ssh_channel_callbacks_struct callbacks{};
  std::uint32_t available = 0;  // bytes that libssh holds for us
  std::uint32_t available_error = 0;
  bool ended = false;  // the peer writes no more
  bool closed = false;
  bool overrun = false;
  std::deque<Waiting> waiting;
  MessageHandle unanswered;
  std::optional<Exit> exit;
};

}  // namespace atl::ssh
