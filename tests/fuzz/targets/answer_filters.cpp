// What passes a server's answers: events and values taken out, the same for every cut.
#include "fuzz.h"
#include "proxy/http/frame_gate.h"
#include "proxy/http/redactor.h"
#include "proxy/http/sse_filter.h"

namespace atl::fuzz {
namespace {

using namespace proxy::http;
constexpr std::string_view kSecret = "s3cret-value-0123456789";

std::string through(BodyFilter& filter, const std::vector<std::string_view>& cut) {
  std::string out;
  for (const auto piece : cut) {
    auto passed = filter.feed(piece);
    if (!passed) {
      return "refused";
    }
    out += *passed;
  }
  auto last = filter.finish();
  return last ? out + *last : "refused";
}

}  // namespace

void answer_filters(std::string_view input) {
  same_for_every_cut(input, [](const std::vector<std::string_view>& cut) {
    HeldBytes held;
    SseFilter filter{[](Json message) { return message; }, {held, "sandbox"}};
    return through(filter, cut);
  });
  const auto redacted = same_for_every_cut(input, [](const std::vector<std::string_view>& cut) {
    Redactor redactor{{std::string{kSecret}, "c2VjcmV0LXZhbHVl"}};
    return through(redactor, cut);
  });
  CHECK(redacted.size() == input.size() && redacted.find(kSecret) == std::string::npos);
  same_for_every_cut(input, [](const std::vector<std::string_view>& cut) {
    FrameGate gate{true};
    for (const auto piece : cut) {
      if (!gate.pass(piece)) {
        return false;
      }
    }
    return true;
  });
}

Seeds answer_filters_seeds() {
  using namespace std::string_literals;
  return {"id: 1\nevent: message\ndata: {\"a\":\ndata: 1}\n\n: comment\r\n\r\ndata:x\r\r",
          "before "s + std::string{kSecret} + std::string{kSecret} + " after",
          "s3cret-s3cret-value-0123456789", "\x81\x85zzzzhello\x8a\x80zzzz"s,
          "\x82\xfe\x01\x00zzzz"s + std::string(256, 'x')};
}

}  // namespace atl::fuzz
