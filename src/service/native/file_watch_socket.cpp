// files/watch: changes of files as they happen, any number of watches on one WebSocket.
//
// The frames are the contract's: {"action":"subscribe","path","recursive"} is answered by
// "subscribed" with a watch_id before any "event" of that watch, "unsubscribe" by "unsubscribed"
// after the last one; without a watch_id it means all watches of the connection. A directory that
// is missing is made. Ours is "watch_id" in errors and the event "overflow": a client that reads
// slowly holds the watch up, and when the kernel has forgotten changes meanwhile the client is told
// to look again instead of being left with a wrong picture. Each watch is one connection to the
// guest, so whatever ends the socket ends them there too.
#include <map>
#include <memory>

#include "base/random.h"
#include "base/scope.h"
#include "base/strings.h"
#include "service/native/fields.h"
#include "service/native/file_routes.h"

namespace atl::service::native {
namespace {

using control::PlaceRef;

constexpr std::size_t kMaxSocketMessageBytes = std::size_t{64} * 1024;
constexpr std::size_t kMaxWatchesPerSocket = 32;

struct Watch {
  std::string id;
  std::unique_ptr<control::FileWatch> events;
  CancelState* waiting = nullptr;  // set while it waits for the guest, never while it sends
  bool dropped = false;

  void drop() {
    dropped = true;
    if (waiting != nullptr) {
      waiting->cancel();
    }
  }
};

class FileWatchSocket {
 public:
  FileWatchSocket(control::Files& files, control::FileDefaults defaults, http::WebSocket& socket)
      : files_(files), defaults_(std::move(defaults)), socket_(socket) {}

  // Until the client has gone.
  Task<> run() {
    Scope sending{co_await current_context()};
    sending.on_error([](const char*, const Error&) {});
    sending_ = &sending;
    auto ended = co_await take_messages();
    (void)co_await sending.cancel_and_join();
    co_return std::move(ended);
  }

 private:
  Task<> take_messages() {
    using Kind = http::WebSocketMessage::Kind;
    for (;;) {
      CO_TRY(const auto message, co_await socket_.receive());
      if (message.kind == Kind::kClose) {
        co_return ok();
      }
      auto done = co_await take(message.payload);
      if (done) {
        continue;
      }
      if (done.error().code == Code::kCancelled) {
        co_return std::move(done);
      }
      CO_TRY_DO(co_await send(
          Json::object({{"type", "error"}, {"error", std::move(done).error().message}})));
    }
  }

  Task<> take(std::string_view text) {
    CO_TRY(const auto json, Json::parse(text));
    CO_TRY(const auto fields, Fields::of(json, "", {"action", "path", "recursive", "watch_id"}));
    CO_TRY(const auto action, fields.required_string("action"));
    if (action == "subscribe") {
      CO_TRY(auto path, fields.required_string("path"));
      CO_TRY(const auto recursive, fields.boolean("recursive"));
      co_return co_await subscribe(std::move(path), recursive.value_or(false));
    }
    if (action == "unsubscribe") {
      CO_TRY(const auto id, fields.string("watch_id"));
      co_return unsubscribe(id.value_or(""));
    }
    co_return fail(Code::kInvalidArgument,
                   "field \"action\" must be \"subscribe\" or \"unsubscribe\"");
  }

  Task<> subscribe(std::string path, bool recursive) {
    if (watches_.size() >= kMaxWatchesPerSocket) {
      co_return fail(Code::kResourceExhausted,
                     concat("a connection has at most ", kMaxWatchesPerSocket, " watches"));
    }
    const guest::WatchRequest request{
        .path = absolute_path(path, defaults_), .user = defaults_.user, .recursive = recursive};
    auto events = co_await files_.watch(request);
    if (!events && events.error().reason == "file_not_found") {
      CO_TRY_DO(co_await files_.make_directory(
          {.path = request.path, .user = request.user, .make_parents = true}));
      events = co_await files_.watch(request);
    }
    if (!events) {
      co_return fail(std::move(events).error());
    }
    const auto watch = std::make_shared<Watch>();
    watch->id = concat("watch-", random_hex(8));
    watch->events = *std::move(events);
    watches_.emplace(watch->id, watch);
    CO_TRY_DO(co_await send(Json::object(
        {{"type", "subscribed"}, {"watch_id", watch->id}, {"path", std::move(path)}})));
    sending_->spawn("file watch", serve(watch));
    co_return ok();
  }

  Result<> unsubscribe(const std::string& id) {
    if (id.empty()) {
      for (const auto& [key, watch] : watches_) {
        watch->drop();
      }
      return {};
    }
    const auto found = watches_.find(id);
    if (found == watches_.end()) {
      return fail(Code::kNotFound, concat("there is no watch \"", id, "\" on this connection"));
    }
    found->second->drop();
    return {};
  }

  // To the end of the watch, and the client is told how it ended.
  Task<> serve(std::shared_ptr<Watch> watch) {
    auto ended = co_await forward(*watch);
    watches_.erase(watch->id);
    if (watch->dropped) {
      co_return co_await send(Json::object({{"type", "unsubscribed"}, {"watch_id", watch->id}}));
    }
    if (ended || ended.error().code == Code::kCancelled) {
      co_return std::move(ended);
    }
    CO_TRY_DO(co_await send(Json::object(
        {{"type", "error"}, {"watch_id", watch->id}, {"error", ended.error().message}})));
    if (ended.error().reason == "guest_lost") {
      co_return co_await socket_.close(1011, "the sandbox cannot be watched any longer");
    }
    co_return ok();
  }

  // Only the wait for the guest can be cancelled by an unsubscribe: a frame that is cut in the
  // middle would break the connection for all watches.
  Task<> forward(Watch& watch) {
    TaskContext& outer = co_await current_context();
    while (!watch.dropped) {
      CancelState cancel{outer.cancel};
      TaskContext inner{outer.loop, &cancel};
      watch.waiting = &cancel;
      auto event = co_await watch.events->next().under(inner);
      watch.waiting = nullptr;
      if (!event) {
        co_return fail(std::move(event).error());
      }
      CO_TRY_DO(co_await send(Json::object({{"type", "event"},
                                            {"watch_id", watch.id},
                                            {"event", file_event_name(event->event)},
                                            {"path", std::move(event->path)}})));
    }
    co_return ok();
  }

  Task<> send(Json frame) {
    const std::string text = frame.dump();
    co_return co_await socket_.send_text(text);
  }

  control::Files& files_;
  const control::FileDefaults defaults_;
  http::WebSocket& socket_;
  Scope* sending_ = nullptr;
  std::map<std::string, std::shared_ptr<Watch>> watches_;
};

}  // namespace

Task<> FileRoutes::watch(NativeExchange& exchange, PlaceRef place) {
  if (wants_lines(exchange)) {
    co_return co_await watch_lines(exchange, std::move(place));
  }
  control::FileDefaults defaults = places_.defaults(place);
  defaults.user = defaults.choose_user(http::query_value(exchange.request().query, "user"));
  CO_TRY(const auto files, co_await places_.open(std::move(place)));
  CO_TRY(const auto socket,
         co_await exchange.accept_websocket({.max_message_bytes = kMaxSocketMessageBytes}));
  FileWatchSocket connection{*files, std::move(defaults), *socket};
  co_return co_await connection.run();
}

}  // namespace atl::service::native
