// HTTP/2 frames into the server's session, which answers every request. Two bytes choose how the
// frames are cut and whether the preface is there.
#include "base/strings.h"
#include "fuzz.h"
#include "http/h2_frame_bytes.h"
#include "http/h2_session.h"

namespace atl::fuzz {
namespace {

constexpr std::size_t kMaxOutputBytes = 1U << 16;

// Answers what has come: every other request gets a body.
void answer(http::Http2Session& session) {
  for (const auto& stream : session.take_requests()) {
    CHECK(stream->id % 2 == 1);
    CHECK(stream->refusal || !stream->head.method.empty());
    const bool has_body = stream->id % 4 == 1;
    if (session.respond(*stream, stream->refusal ? 400 : 200, {{"x-a", "b"}}, has_body) &&
        has_body) {
      stream->output = "hello";
      stream->output_ended = true;
      session.resume(*stream);
    }
  }
  for (const auto& [id, stream] : session.streams()) {
    session.consume(*stream, stream->input.size());
  }
}

}  // namespace

void http2_session(std::string_view bytes) {
  Input input{bytes};
  const auto cut = kCuts[input.number() % std::size(kCuts)];
  const bool with_preface = input.number() % 8 != 0;
  const std::size_t busy = 0;
  http::Http2Session session{{.bytes = 4096, .count = 32}, busy};
  const std::string text = concat(with_preface ? http::frames::start() : "", input.rest());
  Instant now{};
  for (const auto piece : pieces(text, cut)) {
    now += std::chrono::milliseconds{1};
    const auto fed = session.feed(piece, now);
    std::string output;
    const auto taken = session.take_output(output, kMaxOutputBytes);
    if (!fed || !taken || session.violated()) {
      break;
    }
    answer(session);
  }
  session.go_away();
  std::string output;
  (void)session.take_output(output, kMaxOutputBytes);
  session.close_streams();
}

Seeds http2_session_seeds() {
  using namespace http::frames;
  using namespace std::string_literals;
  const auto head = "\0\1"s;
  const auto plain = request_fields("GET", "/");
  const auto post = frame(kHeaders, kEndHeaders, 1, request_fields("POST", "/sink"));
  return {
      head + get(1) + get(3, "/b?c=d") + get(5),
      head + post + frame(kData, 0, 1, "abc") + frame(kData, kEndStream, 1, "d"),
      head + frame(kHeaders, 0, 1, plain) + frame(kContinuation, kEndHeaders, 1, field("a", "b")),
      head + frame(kData, 0, 0, "x"),
      head + get(2),
      head + frame(kSettings, 0, 0, "12345"),
      head + frame(kSettings, 0, 0, "\0\4"s + number(0x80000000)),
      head + frame(kWindow, 0, 0, number(0)) + frame(kWindow, 0, 0, number(0x7fffffff)),
      head + frame(kPing, 0, 0, "12345678") + frame(kPing, 0, 0, "1234567"),
      head + frame(kPush, kEndHeaders, 1, number(2)),
      head + frame(kHeaders, 0, 1, plain) + frame(kPing, 0, 0, "12345678"),
      head + frame(kHeaders, kEndHeaders | kEndStream, 1, "\xff\xff\xff\xff\xff"),
      head + get(1) + frame(kReset, 0, 1, number(8)) + frame(kReset, 0, 7, number(8)),
      head + frame(kHeaders, kEndHeaders, 1, plain + field("content-length", "5")) +
          frame(kData, kEndStream, 1, "abc"),
      head +
          frame(kHeaders, kEndHeaders, 1,
                field(":method", "CONNECT") + field(":protocol", "websocket") +
                    field(":scheme", "http") + field(":path", "/ws") + field(":authority", "x") +
                    field("sec-websocket-version", "13")) +
          frame(kData, 0, 1, "\x81\x80zzzz"),
      head + frame(kHeaders, kEndHeaders | kEndStream, 1, plain + field("X-A", "b")),
      head + frame(kHeaders, kEndHeaders | kEndStream, 1, plain + field("a", "b\r\nc")),
      head + frame(kHeaders, kEndHeaders, 1, plain + field("expect", "100-continue")),
  };
}

}  // namespace atl::fuzz
