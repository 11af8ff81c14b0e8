#include "http/event_writer.h"

#include "base/strings.h"

namespace atl::http {
namespace {

bool is_one_line(std::string_view text) {
  return text.find_first_of(std::string_view{"\r\n\0", 3}) == std::string_view::npos;
}

}  // namespace

Result<std::string> encode_event(const ServerEvent& event) {
  if (!is_one_line(event.name) || !is_one_line(event.id)) {
    return fail(Code::kInternal, "the name and the id of an event are single lines");
  }
  std::string bytes;
  bytes.reserve(event.data.size() + 64);
  if (!event.name.empty()) {
    bytes += concat("event: ", event.name, "\n");
  }
  if (!event.id.empty()) {
    bytes += concat("id: ", event.id, "\n");
  }
  // CR, LF and CR LF all end a line for the client.
  std::string_view rest = event.data;
  for (;;) {
    const auto end = rest.find_first_of("\r\n");
    bytes += concat("data: ", rest.substr(0, end), "\n");
    if (end == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(rest.substr(end).starts_with("\r\n") ? end + 2 : end + 1);
  }
  bytes += "\n";
  return bytes;
}

Task<> EventWriter::start(Headers headers) {
  headers.set("content-type", "text/event-stream");
  headers.set("cache-control", "no-store");
  headers.set("x-accel-buffering", "no");
  co_return co_await exchange_.start(200, std::move(headers), std::nullopt);
}

Task<> EventWriter::send(ServerEvent event) {
  CO_TRY(auto bytes, encode_event(event));
  co_return co_await write(std::move(bytes));
}

Task<> EventWriter::beat(Duration interval) {
  for (;;) {
    const auto before = writes_;
    CO_TRY_DO(co_await sleep_for(interval));
    if (writes_ == before && !writing_) {
      CO_TRY_DO(co_await write(":\n\n"));
    }
  }
}

Task<> EventWriter::write(std::string bytes) {
  while (writing_) {
    CO_TRY_DO(co_await written_.wait());
  }
  writing_ = true;
  written_.clear();
  auto sent = co_await exchange_.write(bytes);
  ++writes_;
  writing_ = false;
  written_.set();
  co_return std::move(sent);
}

}  // namespace atl::http
