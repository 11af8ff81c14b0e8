// HTTP/2 frames into the proxy's sessions: of a hostile sandbox to its server, and of a hostile
// server to its client. Two bytes choose the role and how the frames are cut.
#include "base/strings.h"
#include "fuzz.h"
#include "http/h2_frame_bytes.h"
#include "proxy/http/h2_session.h"

namespace atl::fuzz {
namespace {

using namespace proxy::http;
constexpr std::size_t kMaxOutputBytes = 1U << 16U;

void check_head(const H2Stream& stream) {
  if (stream.refusal) {
    return;
  }
  for (const auto& [name, value] : stream.head.headers.lines()) {
    // What goes on as HTTP/1 cannot be read as more than one line.
    CHECK(name.find_first_of("\r\n: ") == std::string::npos && !name.empty());
    CHECK(value.find_first_of(std::string_view{"\r\n\0", 3}) == std::string::npos);
  }
  CHECK(stream.head.target.find_first_of(" \r\n") == std::string::npos);
}

void answer(H2Session& session) {
  for (const auto& stream : session.take_requests()) {
    check_head(*stream);
    ResponseHead head;
    head.status = stream->refusal ? 400 : 200;
    if (session.respond(*stream, head)) {
      stream->output = "hello";
      stream->output_ended = true;
      session.resume(*stream);
    }
    session.consume(*stream, stream->input_bytes());
    session.handler_ended();
  }
}

std::vector<std::shared_ptr<H2Stream>> ask(H2Session& session) {
  std::vector<std::shared_ptr<H2Stream>> asked;
  for (int n = 0; n < 3; ++n) {
    RequestHead head;
    head.method = "GET";
    head.target = "/";
    head.authority = "a.example";
    if (auto stream = session.request(head, true)) {
      (*stream)->output_ended = true;
      session.resume(**stream);
      asked.push_back(*std::move(stream));
    }
  }
  return asked;
}

}  // namespace

void relay_http2(std::string_view bytes) {
  Input input{bytes};
  const auto role = input.number() % 2 == 0 ? H2Role::kServer : H2Role::kClient;
  const auto cut = kCuts[input.number() % std::size(kCuts)];
  H2Session session{role};
  const auto asked = role == H2Role::kClient ? ask(session) : decltype(ask(session)){};
  std::string output;
  (void)session.take_output(output, kMaxOutputBytes);
  const std::string text =
      concat(role == H2Role::kServer ? atl::http::frames::start() : "", input.rest());
  Instant now{};
  for (const auto piece : pieces(text, cut)) {
    now += std::chrono::milliseconds{1};
    const auto fed = session.feed(piece, now);
    output.clear();
    if (!session.take_output(output, kMaxOutputBytes) || !fed || session.violated()) {
      break;
    }
    if (role == H2Role::kServer) {
      answer(session);
    }
    for (const auto& stream : asked) {
      session.consume(*stream, stream->input_bytes());
    }
  }
  session.go_away();
  (void)session.take_output(output, kMaxOutputBytes);
  session.close_streams();
  CHECK(session.open_streams() == 0 || role == H2Role::kServer);
}

Seeds relay_http2_seeds() {
  using namespace atl::http::frames;
  using namespace std::string_literals;
  const auto plain = request_fields("GET", "/");
  const auto answer_fields = field(":status", "200") + field("a", "b");
  const auto server = "\0\1"s;
  const auto client = "\1\1"s;
  const auto settings = frame(kSettings, 0, 0, "");
  return {
      server + get(1) + get(3, "/b?c=d"),
      server + frame(kHeaders, kEndHeaders, 1, request_fields("POST", "/x")) +
          frame(kData, 0, 1, "abc") + frame(kData, kEndStream, 1, "d"),
      server + frame(kHeaders, kEndHeaders | kEndStream, 1, plain + field("a", "b\r\nc: d")),
      server + frame(kHeaders, kEndHeaders | kEndStream, 1,
                     plain + field("transfer-encoding", "chunked")),
      server + get(1) + frame(kReset, 0, 1, number(8)),
      client + settings + frame(kHeaders, kEndHeaders, 1, answer_fields) +
          frame(kData, kEndStream, 1, "hello"),
      client + settings + frame(kHeaders, kEndHeaders | kEndStream, 3, field(":status", "103")),
      client + settings + frame(kPush, kEndHeaders, 1, number(2) + plain),
      client + settings + frame(kHeaders, kEndHeaders, 1, answer_fields) +
          frame(kHeaders, kEndHeaders | kEndStream, 1, field("grpc-status", "0")),
      client + settings + frame(kReset, 0, 5, number(7)) + frame(kPing, 0, 0, "12345678"),
  };
}

}  // namespace atl::fuzz
