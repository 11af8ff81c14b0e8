#include "service/e2b/envd/multipart.h"

#include <algorithm>

#include "base/strings.h"
#include "http/message.h"

namespace atl::service::e2b::envd {
namespace {

using Event = MultipartDecoder::Event;

std::unexpected<Error> malformed(std::string_view what) {
  return fail(Code::kInvalidArgument, concat("the multipart body is malformed: ", what));
}

// The value of a parameter such as name="a b"; quotes and backslashes as RFC 2183 has them.
std::optional<std::string> parameter(std::string_view text, std::string_view wanted) {
  for (std::size_t at = text.find(';'); at != std::string_view::npos;) {
    text.remove_prefix(at + 1);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) {
      return std::nullopt;
    }
    const auto name = trim(text.substr(0, equals));
    text = trim(text.substr(equals + 1));
    std::string value;
    std::size_t end = 0;
    if (text.starts_with('"')) {
      for (end = 1; end < text.size() && text[end] != '"'; ++end) {
        end += text[end] == '\\' && end + 1 < text.size() &&
                       (text[end + 1] == '"' || text[end + 1] == '\\')
                   ? 1
                   : 0;
        value += text[end];
      }
    } else {
      end = std::min(text.find(';'), text.size());
      value = trim(text.substr(0, end));
    }
    if (equals_ignore_case(name, wanted)) {
      return value;
    }
    at = text.find(';', end);
  }
  return std::nullopt;
}

// Browsers and fetch() write %22, %0D and %0A for what they cannot quote.
std::string unescape_name(std::string name) {
  for (const auto& [escape, character] :
       {std::pair<std::string_view, char>{"%22", '"'}, {"%0D", '\r'}, {"%0A", '\n'}}) {
    for (auto at = name.find(escape); at != std::string::npos; at = name.find(escape, at + 1)) {
      name.replace(at, escape.size(), 1, character);
    }
  }
  return name;
}

Result<Event> parse_head(std::string_view head) {
  Event event{.kind = Event::Kind::kPart};
  while (!head.empty()) {
    const auto end = std::min(head.find("\r\n"), head.size());
    const auto line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) {
      return malformed("a header of a part has no colon");
    }
    if (!equals_ignore_case(trim(line.substr(0, colon)), "content-disposition")) {
      continue;
    }
    const auto value = line.substr(colon + 1);
    event.name = unescape_name(parameter(value, "name").value_or(""));
    event.file_name = unescape_name(parameter(value, "filename").value_or(""));
    constexpr std::string_view kCharset = "utf-8''";
    const auto extended = parameter(value, "filename*").value_or("");
    if (extended.size() > kCharset.size() &&
        equals_ignore_case(extended.substr(0, kCharset.size()), kCharset)) {
      event.file_name = http::percent_decode(extended.substr(kCharset.size()))
                            .value_or(std::move(event.file_name));
    }
  }
  return event;
}

}  // namespace

std::optional<std::string> multipart_boundary(std::string_view content_type) {
  const auto type = trim(content_type.substr(0, content_type.find(';')));
  auto boundary = parameter(content_type, "boundary");
  if (!equals_ignore_case(type, "multipart/form-data") || !boundary || boundary->empty() ||
      boundary->size() > kMaxBoundaryBytes) {
    return std::nullopt;
  }
  return boundary;
}

void MultipartDecoder::feed(std::string_view bytes) {
  buffer_.erase(0, at_);
  at_ = 0;
  if (state_ != State::kEnded) {  // what comes after the end is nobody's
    buffer_ += bytes;
  }
}

std::optional<Event> MultipartDecoder::next_content() {
  const auto rest = pending();
  const auto found = rest.find(delimiter_);
  const bool in_part = state_ == State::kContent;
  if (found == 0 || (!in_part && found != std::string_view::npos)) {
    at_ += found + delimiter_.size();
    state_ = State::kBoundary;
    return in_part ? std::optional{Event{.kind = Event::Kind::kPartEnd}} : std::nullopt;
  }
  // Of what might be the beginning of a delimiter nothing is given away yet.
  std::size_t size = found;
  if (found == std::string_view::npos) {
    const auto tail = rest.rfind('\r');
    const bool open = tail != std::string_view::npos && rest.size() - tail < delimiter_.size() &&
                      std::string_view{delimiter_}.starts_with(rest.substr(tail));
    size = open ? tail : rest.size();
  }
  at_ += size;
  if (!in_part || size == 0) {
    return std::nullopt;
  }
  return Event{.kind = Event::Kind::kData, .bytes = rest.substr(0, size)};
}

Result<std::optional<Event>> MultipartDecoder::next_head() {
  const auto rest = pending();
  const auto end = rest.starts_with("\r\n") ? 0 : rest.find("\r\n\r\n");
  if (end == std::string_view::npos) {
    if (rest.size() > kMaxPartHeadBytes) {
      return malformed("the headers of a part are too long");
    }
    return std::optional<Event>{};
  }
  TRY(auto event, parse_head(rest.substr(0, end)));
  at_ += end == 0 ? 2 : end + 4;
  state_ = State::kContent;
  return std::optional{std::move(event)};
}

Result<std::optional<Event>> MultipartDecoder::next() {
  for (;;) {
    switch (state_) {
      case State::kPreamble:
      case State::kContent: {
        auto event = next_content();
        if (event || state_ != State::kBoundary) {
          return event;
        }
        continue;
      }
      case State::kBoundary: {
        // The delimiter's line may have spaces behind it; however many, none is kept.
        while (pending().starts_with(' ') || pending().starts_with('\t')) {
          ++at_;
        }
        const auto rest = pending();
        if (rest.size() < 2) {
          return std::optional<Event>{};
        }
        if (rest.starts_with("--")) {
          state_ = State::kEnded;
          return std::optional{Event{.kind = Event::Kind::kEnd}};
        }
        if (!rest.starts_with("\r\n")) {
          return malformed("a boundary has something behind it");
        }
        at_ += 2;
        state_ = State::kHead;
        continue;
      }
      case State::kHead:
        return next_head();
      case State::kEnded:
        return std::optional<Event>{};
    }
  }
}

}  // namespace atl::service::e2b::envd
