#include "ssh/channel.h"

#include <algorithm>

#include "base/strings.h"
#include "ssh/channel_impl.h"
#include "ssh/limits.h"

namespace atl::ssh {
namespace {

using Impl = Channel::Impl;

Impl& impl_of(void* userdata) {
  return *static_cast<Impl*>(userdata);
}

// Takes nothing: what is not read stays in libssh, which then does not open the window further.
int on_data(ssh_session, ssh_channel, void*, std::uint32_t size, int is_error, void* userdata) {
  Impl& impl = impl_of(userdata);
  (is_error != 0 ? impl.available_error : impl.available) = size;
  impl.link.wake();
  return 0;
}

void on_end(ssh_session, ssh_channel, void* userdata) {
  impl_of(userdata).ended = true;
  impl_of(userdata).link.wake();
}

void on_close(ssh_session, ssh_channel, void* userdata) {
  impl_of(userdata).ended = true;
  impl_of(userdata).closed = true;
  impl_of(userdata).link.wake();
}

std::string bounded(const char* text, std::size_t max_bytes) {
  return text == nullptr ? std::string{} : std::string{std::string_view{text}.substr(0, max_bytes)};
}

constexpr std::size_t kMaxSignalBytes = 32;

void on_signal(ssh_session, ssh_channel, const char* name, void* userdata) {
  Impl& impl = impl_of(userdata);
  (void)impl.push({.kind = ChannelRequest::Kind::kSignal, .text = bounded(name, kMaxSignalBytes)},
                  nullptr);
  impl.link.wake();
}

void on_exit_status(ssh_session, ssh_channel, int status, void* userdata) {
  impl_of(userdata).exit = Exit{.status = status, .signal = {}};
  impl_of(userdata).link.wake();
}

void on_exit_signal(ssh_session, ssh_channel, const char* name, int core, const char*, const char*,
                    void* userdata) {
  impl_of(userdata).exit =
      Exit{.status = std::nullopt, .signal = bounded(name, kMaxSignalBytes), .core = core != 0};
  impl_of(userdata).link.wake();
}

}  // namespace

Channel::Impl::Impl(Link& its_link, ssh_channel its_handle) : link(its_link), handle(its_handle) {
  callbacks.userdata = this;
  callbacks.channel_data_function = on_data;
  callbacks.channel_eof_function = on_end;
  callbacks.channel_close_function = on_close;
  callbacks.channel_signal_function = on_signal;
  callbacks.channel_exit_status_function = on_exit_status;
  callbacks.channel_exit_signal_function = on_exit_signal;
  ssh_callbacks_init(&callbacks);
  ::ssh_set_channel_callbacks(handle, &callbacks);
}

Channel::Impl::~Impl() {
  unanswered.reset();
  waiting.clear();
  ::ssh_remove_channel_callbacks(handle, &callbacks);
  ::ssh_channel_free(handle);
  link.touched();
}

bool Channel::Impl::push(ChannelRequest request, MessageHandle message) {
  if (waiting.size() == kMaxWaitingRequests) {
    overrun = true;
    return false;
  }
  waiting.push_back({std::move(request), std::move(message)});
  return true;
}

Task<std::size_t> Channel::Impl::read(std::span<char> buffer, bool error) {
  for (;;) {
    std::uint32_t& there = error ? available_error : available;
    if (there > 0) {
      const auto wanted = static_cast<std::uint32_t>(std::min<std::size_t>(buffer.size(), there));
      const int got = ::ssh_channel_read_nonblocking(handle, buffer.data(), wanted, error ? 1 : 0);
      link.touched();
      if (got <= 0) {
        co_return link.over_error();
      }
      there -= std::min(there, static_cast<std::uint32_t>(got));
      co_return static_cast<std::size_t>(got);
    }
    if (ended) {
      co_return std::size_t{0};
    }
    if (link.over()) {
      co_return link.over_error();
    }
    CO_TRY_DO(co_await link.turned());
  }
}

Task<> Channel::Impl::write(std::string_view bytes, bool error) {
  while (!bytes.empty()) {
    if (closed) {
      co_return fail(Code::kUnavailable, "the SSH channel is closed");
    }
    if (link.over()) {
      co_return link.over_error();
    }
    int written = 0;
    if (link.can_write() && ::ssh_channel_window_size(handle) > 0) {
      const auto size = static_cast<std::uint32_t>(std::min(bytes.size(), kPieceBytes));
      written = error ? ::ssh_channel_write_stderr(handle, bytes.data(), size)
                      : ::ssh_channel_write(handle, bytes.data(), size);
      link.touched();
    }
    if (written < 0 && written != SSH_AGAIN) {
      co_return link.over_error();
    }
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else {
      CO_TRY_DO(co_await link.turned());
    }
  }
  co_return ok();
}

int Channel::Impl::send_request(const ChannelRequest& request) {
  using Kind = ChannelRequest::Kind;
  switch (request.kind) {
    case Kind::kTerminal:
      return ::ssh_channel_request_pty_size(handle, request.text.c_str(),
                                            static_cast<int>(request.columns),
                                            static_cast<int>(request.rows));
    case Kind::kEnvironment:
      return ::ssh_channel_request_env(handle, request.text.c_str(), request.value.c_str());
    case Kind::kShell:
      return ::ssh_channel_request_shell(handle);
    case Kind::kExec:
      return ::ssh_channel_request_exec(handle, request.text.c_str());
    case Kind::kSubsystem:
      return ::ssh_channel_request_subsystem(handle, request.text.c_str());
    case Kind::kResize:
      return ::ssh_channel_change_pty_size(handle, static_cast<int>(request.columns),
                                           static_cast<int>(request.rows));
    case Kind::kSignal:
      return ::ssh_channel_request_send_signal(handle, request.text.c_str());
    case Kind::kOther:
      break;
  }
  return SSH_ERROR;
}

Channel::Channel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Channel::~Channel() = default;

Task<std::size_t> Channel::read(std::span<char> buffer) {
  return impl_->read(buffer, false);
}

Task<std::size_t> Channel::read_error(std::span<char> buffer) {
  return impl_->read(buffer, true);
}

Task<> Channel::write(std::string_view bytes) {
  return impl_->write(bytes, false);
}

Task<> Channel::write_error(std::string_view bytes) {
  return impl_->write(bytes, true);
}

Result<> Channel::finish_writing() {
  const int outcome = impl_->closed ? SSH_OK : ::ssh_channel_send_eof(impl_->handle);
  impl_->link.touched();
  if (outcome == SSH_ERROR) {
    return impl_->link.over_error();
  }
  return {};
}

bool Channel::closed() const {
  return impl_->closed || impl_->link.over();
}

Task<ChannelRequest> Channel::next_request() {
  answer(false);
  for (;;) {
    if (!impl_->waiting.empty()) {
      Impl::Waiting next = std::move(impl_->waiting.front());
      impl_->waiting.pop_front();
      impl_->unanswered = std::move(next.message);
      co_return std::move(next.request);
    }
    if (closed()) {
      co_return fail(Code::kUnavailable, "the SSH channel is closed");
    }
    CO_TRY_DO(co_await impl_->link.turned());
  }
}

void Channel::answer(bool accepted) {
  if (!impl_->unanswered) {
    return;
  }
  const MessageHandle message = std::move(impl_->unanswered);
  if (accepted) {
    ::ssh_message_channel_request_reply_success(message.get());
  } else {
    ::ssh_message_reply_default(message.get());
  }
  impl_->link.touched();
}

void Channel::send_exit(const Exit& exit) {
  if (closed()) {
    return;
  }
  if (exit.status) {
    ::ssh_channel_request_send_exit_status(impl_->handle, *exit.status);
  } else if (!exit.signal.empty()) {
    ::ssh_channel_request_send_exit_signal(impl_->handle, exit.signal.c_str(), exit.core ? 1 : 0,
                                           "", "");
  }
  impl_->link.touched();
}

Task<> Channel::flush() {
  while (!closed() && !impl_->link.can_write()) {
    CO_TRY_DO(co_await impl_->link.turned());
  }
  co_return ok();
}

Task<bool> Channel::request(ChannelRequest request) {
  for (bool asked = false;; asked = true) {
    // A yes and the end may come together: then the yes counts.
    const bool is_closed = closed();
    const int outcome = is_closed && !asked ? SSH_ERROR : impl_->send_request(request);
    impl_->link.touched();
    if (outcome == SSH_OK || (outcome != SSH_AGAIN && !is_closed)) {
      co_return outcome == SSH_OK;
    }
    if (is_closed) {
      co_return fail(Code::kUnavailable, "the SSH channel is closed");
    }
    CO_TRY_DO(co_await impl_->link.turned());
  }
}

Task<> Channel::wait_closed() {
  while (!closed()) {
    CO_TRY_DO(co_await impl_->link.turned());
  }
  co_return ok();
}

const std::optional<Exit>& Channel::exit() const {
  return impl_->exit;
}

}  // namespace atl::ssh
