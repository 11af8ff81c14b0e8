#include "http/h1_body.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::http {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

BodyDecoder::BodyDecoder(Framing framing) {
  switch (framing.kind) {
    case Framing::Kind::kNone:
      state_ = State::kDone;
      break;
    case Framing::Kind::kLength:
      state_ = State::kLength;
      break;
    case Framing::Kind::kChunked:
      state_ = State::kChunkSize;
      break;
    case Framing::Kind::kUntilClose:
      state_ = State::kUntilClose;
      break;
  }
  remaining_ = framing.kind == Framing::Kind::kLength ? framing.length : 0;
}

std::uint64_t BodyDecoder::plain_bytes() const {
  switch (state_) {
    case State::kLength:
    case State::kChunkData:
      return remaining_;
    case State::kUntilClose:
      return UINT64_MAX;
    default:
      return 0;
  }
}

void BodyDecoder::skip(std::uint64_t bytes) {
  CHECK(bytes <= plain_bytes());
  if (state_ == State::kUntilClose) {
    return;
  }
  remaining_ -= bytes;
  if (remaining_ == 0) {
    state_ = state_ == State::kLength ? State::kDone : State::kChunkDataCr;
  }
}

bool BodyDecoder::end_of_input() {
  if (state_ == State::kUntilClose) {
    state_ = State::kDone;
  }
  return done();
}

std::expected<BodyDecoder::Step, Refusal> BodyDecoder::feed(std::string_view input) {
  std::size_t used = 0;
  while (used < input.size() && !done()) {
    if (const auto plain = plain_bytes(); plain > 0) {
      const auto data = input.substr(used, std::min<std::uint64_t>(plain, input.size() - used));
      skip(data.size());
      return Step{used + data.size(), data};
    }
    if (const auto refusal = control_byte(input[used])) {
      return std::unexpected(*refusal);
    }
    ++used;
  }
  return Step{used, {}};
}

std::optional<Refusal> BodyDecoder::spend_overhead() {
  return ++overhead_bytes_ > kMaxChunkOverheadBytes
             ? std::optional{Refusal{400, "chunk extensions and trailers are too large"}}
             : std::nullopt;
}

// One byte of chunk framing.
std::optional<Refusal> BodyDecoder::control_byte(char c) {
  switch (state_) {
    case State::kChunkSize:
      return size_byte(c);
    case State::kChunkExtension:
      if (c == '\r') {
        state_ = State::kChunkSizeLf;
        return std::nullopt;
      }
      if (c != '\t' && (c < 0x20 || c == 0x7F)) {
        return Refusal{400, "a chunk extension is malformed"};
      }
      return spend_overhead();
    case State::kChunkSizeLf:
      if (c != '\n') {
        return Refusal{400, "a chunk size line does not end with CR LF"};
      }
      digits_ = 0;
      state_ = remaining_ == 0 ? State::kTrailer : State::kChunkData;
      return std::nullopt;
    case State::kChunkDataCr:
    case State::kChunkDataLf:
      if (c != (state_ == State::kChunkDataCr ? '\r' : '\n')) {
        return Refusal{400, "chunk data does not end with CR LF"};
      }
      state_ = state_ == State::kChunkDataCr ? State::kChunkDataLf : State::kChunkSize;
      return std::nullopt;
    default:
      return trailer_byte(c);
  }
}

std::optional<Refusal> BodyDecoder::size_byte(char c) {
  if (const int value = hex_value(c); value >= 0) {
    // Sixteen digits fill the 64 bits exactly; the top bit stays clear so sums cannot wrap.
    if (++digits_ > kMaxChunkSizeDigits || remaining_ > (UINT64_MAX >> 5)) {
      return Refusal{400, "a chunk size is too large"};
    }
    remaining_ = remaining_ * 16 + static_cast<std::uint64_t>(value);
    return std::nullopt;
  }
  if (digits_ == 0 || (c != '\r' && c != ';')) {
    return Refusal{400, "a chunk size is not a hexadecimal number"};
  }
  state_ = c == '\r' ? State::kChunkSizeLf : State::kChunkExtension;
  return std::nullopt;
}

std::optional<Refusal> BodyDecoder::trailer_byte(char c) {
  if (state_ == State::kTrailerLf) {
    if (c != '\n') {
      return Refusal{400, "a trailer line does not end with CR LF"};
    }
    if (trailer_line_.empty()) {
      state_ = State::kDone;
      return std::nullopt;
    }
    const auto refusal = gate_trailer(trailer_line_);
    if (!refusal) {
      const auto line = std::string_view{trailer_line_};
      const auto colon = line.find(':');
      trailers_.add(line.substr(0, colon), trim(line.substr(colon + 1)));
    }
    trailer_line_.clear();
    state_ = State::kTrailer;
    return refusal;
  }
  if (c == '\r') {
    state_ = State::kTrailerLf;
    return std::nullopt;
  }
  if (c == '\n') {
    return Refusal{400, "a trailer line does not end with CR LF"};
  }
  trailer_line_ += c;
  return spend_overhead();
}

}  // namespace atl::http
