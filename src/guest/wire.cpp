// Frames, and what is common to all of the guest protocol. Each pair of functions in the wire files
// is the whole format of one message; decoding reads straight through, checks ByteReader::finish()
// once and then the limits. Nothing decoded is trusted further than these checks say. The host
// links exactly the files wire*.cpp.
#include "guest/wire.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/strings.h"
#include "guest/wire_checks.h"

namespace atl::guest {

Result<FrameHeader> decode_header(std::string_view header) {
  CHECK(header.size() == kFrameHeaderBytes);
  ByteReader in{header};
  const std::uint32_t payload_bytes = in.u32();
  const auto kind = static_cast<Kind>(in.u8());
  if (payload_bytes > kMaxPayloadBytes) {
    return fail(
        Code::kInvalidArgument,
        concat("frame of ", payload_bytes, " bytes is over the limit of ", kMaxPayloadBytes),
        "malformed");
  }
  return FrameHeader{payload_bytes, kind};
}

std::string encode_header(Kind kind, std::size_t payload_bytes) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(payload_bytes)).u8(static_cast<std::uint8_t>(kind));
  return std::move(out).bytes();
}

std::string encode_frame(Kind kind, std::string_view payload) {
  std::string frame = encode_header(kind, payload.size());
  frame += payload;
  return frame;
}

std::string encode(const Pong& pong) {
  return ByteWriter{}.u32(pong.protocol_version).u32(pong.process_count).bytes();
}

Result<Pong> decode_pong(std::string_view payload) {
  ByteReader in{payload};
  Pong pong;
  pong.protocol_version = in.u32();
  pong.process_count = in.u32();
  TRY_DO(in.finish());
  return pong;
}

std::string encode(const Error& error) {
  ByteWriter out;
  out.u8(static_cast<std::uint8_t>(error.code));
  out.string(std::string_view{error.message}.substr(0, kMaxErrorBytes));
  out.string(std::string_view{error.reason}.substr(0, kMaxProcessIdBytes));
  return std::move(out).bytes();
}

Error decode_error(std::string_view payload) {
  ByteReader in{payload};
  Error error;
  error.code = code_from_number(in.u8());
  const auto message = in.view();
  const auto reason = in.view();
  if (!in.finish() || message.size() > kMaxErrorBytes || reason.size() > kMaxProcessIdBytes) {
    return Error{Code::kInternal, "the guest sent a malformed error", "malformed"};
  }
  append_printable(error.message, message.empty() ? "no reason given" : to_valid_utf8(message));
  for (const char c : reason) {
    const bool good =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    error.reason += good ? c : '_';
  }
  return error;
}

std::string encode_id(std::string_view process_id) {
  return ByteWriter{}.string(process_id).bytes();
}

Result<std::string> decode_id(std::string_view payload) {
  ByteReader in{payload};
  std::string process_id = in.string();
  TRY_DO(in.finish());
  TRY_DO(validate_process_id(process_id));
  return process_id;
}

std::string encode_number(std::uint32_t value) {
  return ByteWriter{}.u32(value).bytes();
}

Result<std::uint32_t> decode_number(std::string_view payload) {
  ByteReader in{payload};
  const std::uint32_t value = in.u32();
  TRY_DO(in.finish());
  return value;
}

std::string encode_output(OutputHeader header, std::string_view bytes) {
  ByteWriter out;
  out.u8(static_cast<std::uint8_t>(header.stream)).u64(header.offset);
  std::string payload = std::move(out).bytes();
  payload += bytes;
  return payload;
}

Result<Output> decode_output(std::string_view payload) {
  constexpr std::size_t kHeaderBytes = 9;
  ByteReader in{payload.substr(0, kHeaderBytes)};
  const auto stream = in.u8();
  const auto offset = in.u64();
  TRY_DO(in.finish());
  if (stream < 1 || stream > 4) {
    return fail(Code::kInvalidArgument, "unknown output stream", "malformed");
  }
  return Output{{static_cast<Stream>(stream), offset}, payload.substr(kHeaderBytes)};
}

}  // namespace atl::guest
