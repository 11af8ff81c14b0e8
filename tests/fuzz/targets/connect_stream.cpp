// What clients of a sandbox's agent port send: envelopes, messages in both codecs, multipart
// bodies.
#include "fuzz.h"
#include "service/e2b/envd/envelope.h"
#include "service/e2b/envd/message_codec.h"
#include "service/e2b/envd/multipart.h"

namespace atl::fuzz {
namespace {

using namespace service::e2b::envd;

const Message* const kRequests[] = {&kEmpty,
                                    &kStartRequest,
                                    &kProcessSelection,
                                    &kUpdateRequest,
                                    &kStreamInputRequest,
                                    &kSendInputRequest,
                                    &kSendSignalRequest,
                                    &kPathRequest,
                                    &kMoveRequest,
                                    &kListDirRequest,
                                    &kWatchRequest,
                                    &kWatcherId};

// What was decoded says the same again, in either codec.
void decode_all(std::string_view bytes) {
  for (const Message* const message : kRequests) {
    for (const Codec codec : {Codec::kJson, Codec::kBinary}) {
      const auto value = decode_message(*message, codec, bytes);
      for (const Codec other : {Codec::kJson, Codec::kBinary}) {
        const std::string once = value ? encode_message(*message, other, *value) : "";
        const auto again = decode_message(*message, other, once);
        CHECK(!value || (again && encode_message(*message, other, *again) == once));
      }
    }
  }
}

std::string read_envelopes(const std::vector<std::string_view>& pieces) {
  EnvelopeDecoder decoder;
  std::string seen;
  for (const std::string_view piece : pieces) {
    decoder.feed(piece);
    for (;;) {
      const auto envelope = decoder.next();
      if (!envelope) {
        return seen + "!";
      }
      if (!*envelope) {
        break;
      }
      seen += encode_envelope((*envelope)->flags, (*envelope)->message);
    }
  }
  return seen;
}

std::string read_parts(const std::vector<std::string_view>& pieces) {
  using Kind = MultipartDecoder::Event::Kind;
  MultipartDecoder decoder{"b"};
  std::string seen;
  for (const std::string_view piece : pieces) {
    decoder.feed(piece);
    for (;;) {
      const auto event = decoder.next();
      if (!event) {
        return seen + "!";
      }
      if (!*event) {
        break;
      }
      seen += (*event)->kind == Kind::kPart      ? "[" + (*event)->name + (*event)->file_name + "]"
              : (*event)->kind == Kind::kPartEnd ? "/"
                                                 : std::string{(*event)->bytes};
    }
    CHECK(decoder.kept_bytes() <= kMaxPartHeadBytes + piece.size());
  }
  return seen;
}

}  // namespace

void connect_stream(std::string_view input) {
  decode_all(input);
  same_for_every_cut(input, read_envelopes);
  // A part's head that is too long is noticed the earlier the smaller the pieces are.
  if (input.size() < kMaxPartHeadBytes) {
    same_for_every_cut(input, read_parts);
  }
  (void)multipart_boundary(input);
}

Seeds connect_stream_seeds() {
  const Json start =
      Json::object({{"process", Json::object({{"cmd", "/bin/bash"},
                                              {"args", Json{Json::Array{"-l", "-c", "true"}}},
                                              {"envs", Json::object({{"A", "1"}})}})},
                    {"tag", "t"},
                    {"stdin", false}});
  const std::string json = encode_message(kStartRequest, Codec::kJson, start);
  const std::string binary = encode_message(kStartRequest, Codec::kBinary, start);
  return {json,
          binary,
          encode_envelope(0, json) + encode_envelope(kEndFlag, "{}"),
          encode_envelope(0, binary),
          R"({"process":{"pid":"7"},"signal":9,"input":{"stdin":"AP8="}})",
          "multipart/form-data; boundary=\"b\"",
          "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--b--"};
}

}  // namespace atl::fuzz
