// The chunked coding alone: hostile chunks, and any body there and back.
#include "base/strings.h"
#include "fuzz.h"
#include "http/h1_body.h"

namespace atl::fuzz {
namespace {

std::string decode(const std::vector<std::string_view>& parts) {
  http::BodyDecoder decoder{{.kind = http::Framing::Kind::kChunked}};
  std::string body;
  std::size_t after = 0;
  for (std::string_view part : parts) {
    while (!part.empty() && !decoder.done()) {
      const auto step = decoder.feed(part);
      if (!step) {
        return concat(body, "\nrefused ", step.error().reason);
      }
      CHECK(step->consumed > 0 && step->consumed <= part.size());
      body += step->data;
      part.remove_prefix(step->consumed);
    }
    after += part.size();
  }
  return decoder.done() ? concat(body, "\ndone, left ", after) : body + "\ncut short";
}

std::string hexadecimal(std::size_t value) {
  std::string digits;
  do {
    digits.insert(digits.begin(), "0123456789abcdef"[value % 16]);
    value /= 16;
  } while (value > 0);
  return digits;
}

}  // namespace

void http1_chunked(std::string_view input) {
  same_for_every_cut(input, decode);
  std::string chunked;
  for (const auto piece : pieces(input, Cut::kUneven)) {
    chunked += concat(hexadecimal(piece.size()), "\r\n", piece, "\r\n");
  }
  chunked += "0\r\n\r\n";
  CHECK(decode({chunked}) == concat(input, "\ndone, left 0"));
}

Seeds http1_chunked_seeds() {
  return {"3\r\nabc\r\n0\r\n\r\n",
          "00003;x=\"y\"\r\nabc\r\n1\r\nd\r\n0\r\nTrailer: value\r\n\r\nrest",
          "ffffffffffffffff\r\n",
          "10000000000000000\r\n",
          "0x3\r\nabc\r\n0\r\n\r\n",
          "3\nabc\n0\n\n",
          "0\r\nContent-Length: 3\r\n\r\n",
          "-1\r\n"};
}

}  // namespace atl::fuzz
