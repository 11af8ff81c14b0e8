#include "cli/shell_session.h"

#include <csignal>

#include "base/scope.h"
#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/fair_turn.h"

namespace atl::cli {
namespace {

constexpr std::size_t kFrameHeadBytes = 9;  // stream, offset
constexpr std::size_t kKeysBytes = 32UL << 10;
constexpr std::size_t kMaxPendingBytes = 1UL << 20;
constexpr std::chrono::milliseconds kFirstReconnectDelay{100};
constexpr std::chrono::seconds kLongestReconnectDelay{2};
// What a program that did not end by itself may have left on: attributes, a hidden cursor,
// bracketed paste, mouse reports.
constexpr std::string_view kCalmScreen =
    "\x1b[0m\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l";

std::uint64_t offset_of(std::string_view frame) {
  std::uint64_t offset = 0;
  for (const char byte : frame.substr(1, kFrameHeadBytes - 1)) {
    offset = offset << 8U | static_cast<unsigned char>(byte);
  }
  return offset;
}

}  // namespace

ShellSession::ShellSession(CommandContext& context, Terminal& terminal, Target target)
    : context_(context),
      terminal_(terminal),
      target_(std::move(target)),
      api_(context.reactor, context.endpoint),
      filter_(target_.escapes) {}

Task<std::optional<ExitEvent>> ShellSession::run() {
  CO_TRY(keys_, SharedReader::open(context_.reactor, context_.console.input()));
  CO_TRY(screen_, SharedWriter::open(context_.reactor, context_.console.output()));
  CO_TRY_DO(terminal_.make_raw());
  TaskContext& outer = co_await current_context();
  CancelState leave{outer.cancel};
  TaskContext inner{outer.loop, &leave};
  Scope beside{outer};
  beside.on_error([this](const char* what, const Error& error) {
    context_.console.complain(concat("\r\natoll: ", what, ": ", printable(error.message), "\r\n"));
  });
  beside.spawn("reading keys", forward_keys(leave));
  beside.spawn("sending keys", send_pending());
  beside.spawn("watching the window", watch_window());
  auto followed = co_await follow().under(inner);
  (void)co_await beside.cancel_and_join();
  if (!followed) {
    context_.console.complain(concat(kCalmScreen, "\r\n"));
  }
  terminal_.restore();
  if (detached_) {
    co_return std::nullopt;
  }
  if (!followed) {
    co_return fail(std::move(followed).error());
  }
  co_return exit_;
}

Task<> ShellSession::follow() {
  Duration delay = kFirstReconnectDelay;
  Instant lost_at{};
  for (bool lost = false;;) {
    progressed_ = false;
    auto ended = co_await follow_once();
    if (ended && *ended) {
      co_return ok();
    }
    if (!ended && ended.error().reason != kReasonTransport) {
      co_return fail(std::move(ended).error());
    }
    if (!lost || progressed_) {
      lost = true;
      lost_at = context_.reactor.now();
      delay = kFirstReconnectDelay;
      context_.console.complain(
          "\r\n[atoll: the connection broke; connecting again; Enter ~. leaves]\r\n");
    } else if (context_.reactor.now() - lost_at > kReconnectPatience) {
      co_return fail(ended ? Error{Code::kUnavailable, "the server ends the connection each time",
                                   kReasonTransport}
                           : std::move(ended).error());
    }
    CO_TRY_DO(co_await sleep_for(delay));
    delay = std::min<Duration>(delay * 2, kLongestReconnectDelay);
  }
}

Task<bool> ShellSession::follow_once() {
  using Kind = http::WebSocketMessage::Kind;
  CO_TRY(auto opened, co_await api_.open_socket(concat(
                          context_path(target_.sandbox_id, target_.context_id, "/ws?binary=true"),
                          "&after=", next_offset_)));
  const std::shared_ptr<http::WebSocket> socket{std::move(opened)};
  socket_ = socket;
  connected_.set();
  CO_TRY_DO(co_await send_size());
  FairTurn turn;
  for (;;) {
    CO_TRY_DO(co_await turn.step());
    auto message = co_await socket->receive();
    if (!message || message->kind == Kind::kClose) {
      drop_socket(socket);
      if (!message && message.error().code == Code::kCancelled) {
        co_return fail(std::move(message).error());
      }
      co_return false;
    }
    progressed_ = true;
    if (message->kind == Kind::kBinary) {
      CO_TRY_DO(co_await take_output(message->payload));
      continue;
    }
    const auto json = Json::parse(message->payload);
    if (json && text_member(*json, "type") == "done") {
      exit_ = decode_exit(*json);
      co_return true;
    }
  }
}

Task<> ShellSession::take_output(std::string_view frame) {
  if (frame.size() < kFrameHeadBytes) {
    co_return fail(Code::kDataLoss, "the server sent a frame that is too short");
  }
  const std::uint64_t offset = offset_of(frame);
  std::string_view bytes = frame.substr(kFrameHeadBytes);
  const std::uint64_t end = offset + bytes.size();
  if (offset > next_offset_ && next_offset_ > 0) {
    context_.console.complain(
        concat("\r\n[atoll: ", offset - next_offset_, " bytes of output are no longer kept]\r\n"));
  } else if (offset < next_offset_) {
    bytes.remove_prefix(std::min<std::uint64_t>(next_offset_ - offset, bytes.size()));
  }
  CO_TRY_DO(co_await screen_->write(bytes));
  next_offset_ = std::max(next_offset_, end);
  co_return ok();
}

Task<> ShellSession::forward_keys(CancelState& leave) {
  std::vector<char> buffer(kKeysBytes);
  for (;;) {
    auto got = co_await keys_->read(buffer);
    if (!got || *got == 0) {  // the terminal has gone
      leave.cancel();
      co_return got ? ok() : fail(std::move(got).error());
    }
    for (std::string_view bytes{buffer.data(), *got}; !bytes.empty();) {
      auto step = filter_.feed(bytes);
      bytes.remove_prefix(step.taken);
      while (pending_.size() > kMaxPendingBytes) {
        taken_.clear();
        CO_TRY_DO(co_await taken_.wait());
      }
      pending_ += step.keys;
      typed_.set();
      CO_TRY_DO(co_await act(step.action, leave));
    }
  }
}

Task<> ShellSession::act(EscapeFilter::Action action, CancelState& leave) {
  using Action = EscapeFilter::Action;
  if (action == Action::kExplain) {
    context_.console.complain(kEscapeHelp);
  } else if (action == Action::kSuspend) {
    terminal_.restore();
    ::kill(0, SIGTSTP);  // the whole job, as the terminal itself would; SIGCONT makes it raw again
  } else if (action == Action::kDetach) {
    detached_ = true;
    leave.cancel();
  }
  co_return ok();
}

Task<> ShellSession::send_pending() {
  for (;;) {
    while (pending_.empty()) {
      typed_.clear();
      CO_TRY_DO(co_await typed_.wait());
    }
    auto keys = pending_.substr(0, kKeysBytes);
    pending_.erase(0, keys.size());
    taken_.set();
    CO_TRY_DO(co_await send_keys(std::move(keys)));
  }
}

// Keys that a broken connection did not take go to the next one.
Task<> ShellSession::send_keys(std::string keys) {
  for (;;) {
    CO_TRY_DO(co_await connected_.wait());
    const auto socket = socket_;
    if (!socket) {
      connected_.clear();
      continue;
    }
    auto sent = co_await socket->send_binary(keys);
    if (sent || sent.error().code == Code::kCancelled) {
      co_return std::move(sent);
    }
    drop_socket(socket);
  }
}

void ShellSession::drop_socket(const std::shared_ptr<http::WebSocket>& socket) {
  if (socket_ == socket) {
    socket_.reset();
    connected_.clear();
  }
}

Task<> ShellSession::send_size() {
  const auto socket = socket_;
  if (!socket) {
    co_return ok();  // the next connection begins with it
  }
  const auto size = terminal_.size();
  const std::string text =
      Json::object({{"type", "resize"}, {"rows", size.rows}, {"cols", size.columns}}).dump();
  auto sent = co_await socket->send_text(text);
  if (!sent && sent.error().code == Code::kCancelled) {
    co_return std::move(sent);
  }
  co_return ok();  // a broken connection is noticed by whoever receives
}

Task<> ShellSession::watch_window() {
  io::SignalWatch signals{context_.reactor, {SIGWINCH, SIGCONT}};
  for (;;) {
    CO_TRY(const int signal, co_await signals.next());
    if (signal == SIGCONT) {
      CO_TRY_DO(terminal_.make_raw());
    }
    CO_TRY_DO(co_await send_size());
  }
}

}  // namespace atl::cli
