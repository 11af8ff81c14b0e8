// Server-sent events: a response that goes on, one framed event after another.
//
// send() and heartbeats may come from different tasks; each event goes out whole. A heartbeat is a
// comment that clients ignore; it keeps middle boxes from closing a quiet connection, and finds
// out when the client has gone.
#pragma once

#include <string>
#include <string_view>

#include "http/server.h"

namespace atl::http {

struct ServerEvent {
  std::string_view name;  // empty: "message"
  std::string_view data;
  std::string_view id;
};

// The bytes of one event. Line breaks in the data become lines of their own; a name or an id with
// a line break is a mistake of the caller.
Result<std::string> encode_event(const ServerEvent& event);

class EventWriter {
 public:
  explicit EventWriter(Exchange& exchange) : exchange_(exchange) {}
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  Task<> start(Headers headers = {});
  Task<> send(ServerEvent event);
  Task<> finish() { return exchange_.finish(); }
  // Sends a heartbeat whenever nothing was sent for `interval`. For a scope of the handler, who
  // cancels it before finish(). Ends with the error that tells the client has gone.
  Task<> beat(Duration interval);

 private:
  Task<> write(std::string bytes);

  Exchange& exchange_;
  bool writing_ = false;
  Event written_;
  std::uint64_t writes_ = 0;
};

}  // namespace atl::http
