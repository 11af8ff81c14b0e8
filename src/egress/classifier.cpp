#include "egress/classifier.h"

#include <algorithm>
#include <array>

namespace atl::egress {
namespace {

enum class Fit : std::uint8_t { kNo, kMaybe, kYes };

std::uint8_t byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint8_t>(bytes[at]);
}

// `bytes` begin with `word`, or could still.
Fit fits_word(std::string_view bytes, std::string_view word) {
  if (bytes.size() >= word.size()) {
    return bytes.starts_with(word) ? Fit::kYes : Fit::kNo;
  }
  return word.starts_with(bytes) ? Fit::kMaybe : Fit::kNo;
}

std::uint32_t big_endian_32(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint32_t>(byte_at(bytes, at)) << 24 |
         static_cast<std::uint32_t>(byte_at(bytes, at + 1)) << 16 |
         static_cast<std::uint32_t>(byte_at(bytes, at + 2)) << 8 | byte_at(bytes, at + 3);
}

std::uint32_t little_endian_32(std::string_view bytes, std::size_t at) {
  return __builtin_bswap32(big_endian_32(bytes, at));
}

Fit fits_tls(std::string_view bytes) {
  if (byte_at(bytes, 0) != 22) {
    return Fit::kNo;
  }
  return bytes.size() < 2 ? Fit::kMaybe : byte_at(bytes, 1) == 3 ? Fit::kYes : Fit::kNo;
}

// A token of capital letters, one space, and a target that begins as one can.
Fit fits_http1(std::string_view bytes) {
  constexpr std::size_t kLongestMethod = 16;
  const auto is_capital = [](char c) { return (c >= 'A' && c <= 'Z') || c == '-'; };
  const auto end = std::find_if_not(bytes.begin(), bytes.end(), is_capital);
  const auto size = static_cast<std::size_t>(end - bytes.begin());
  if (size > kLongestMethod || (size < 3 && end != bytes.end())) {
    return Fit::kNo;
  }
  if (end == bytes.end() || bytes.size() == size + 1) {
    return end == bytes.end() || *end == ' ' ? Fit::kMaybe : Fit::kNo;
  }
  // Also methods we would refuse: it is HTTP, and is refused as such.
  return *end == ' ' && bytes[size + 1] > ' ' ? Fit::kYes : Fit::kNo;
}

Fit fits_socks5(std::string_view bytes) {
  if (byte_at(bytes, 0) != 5) {
    return Fit::kNo;
  }
  if (bytes.size() < 2) {
    return Fit::kMaybe;
  }
  const std::size_t methods = byte_at(bytes, 1);
  if (methods == 0 || bytes.size() > 2 + methods) {
    return Fit::kNo;
  }
  return bytes.size() == 2 + methods ? Fit::kYes : Fit::kMaybe;
}

Fit fits_mqtt(std::string_view bytes) {
  if (byte_at(bytes, 0) != 0x10) {
    return Fit::kNo;
  }
  std::size_t at = 1;  // after the remaining length, one to four bytes
  while (at < bytes.size() && at < 5 && (byte_at(bytes, at) & 0x80U) != 0) {
    ++at;
  }
  if (at == 5) {
    return Fit::kNo;
  }
  if (at + 1 >= bytes.size()) {
    return Fit::kMaybe;
  }
  using namespace std::string_view_literals;
  const auto name = bytes.substr(at + 1);
  return std::max(fits_word(name, "\0\4MQTT"sv), fits_word(name, "\0\6MQIsdp"sv));
}

// "*3\r\n$": an array of bulk strings, as every client library writes it.
Fit fits_redis(std::string_view bytes) {
  if (bytes[0] != '*') {
    return Fit::kNo;
  }
  std::size_t at = 1;
  while (at < bytes.size() && at < 8 && bytes[at] >= '0' && bytes[at] <= '9') {
    ++at;
  }
  if (at == bytes.size()) {
    return Fit::kMaybe;
  }
  return at == 1 ? Fit::kNo : fits_word(bytes.substr(at), "\r\n$");
}

Fit fits_mongodb(std::string_view bytes) {
  constexpr std::uint32_t kQuery = 2004;
  constexpr std::uint32_t kMessage = 2013;
  constexpr std::uint32_t kCompressed = 2012;
  constexpr std::uint32_t kMaxMessageBytes = 48'000'000;
  if (bytes.size() < 4) {
    return Fit::kMaybe;
  }
  const auto size = little_endian_32(bytes, 0);
  if (size < 16 || size > kMaxMessageBytes) {
    return Fit::kNo;
  }
  if (bytes.size() < 16) {
    return Fit::kMaybe;
  }
  const auto operation = little_endian_32(bytes, 12);
  const bool known = operation == kQuery || operation == kMessage || operation == kCompressed;
  return known ? Fit::kYes : Fit::kNo;
}

// Start-up, TLS request, encryption request, cancel.
Fit fits_postgres(std::string_view bytes) {
  constexpr std::uint32_t kVersion3 = 196608;
  constexpr std::array<std::uint32_t, 3> kRequests{80877102, 80877103, 80877104};
  constexpr std::uint32_t kMaxStartBytes = 10'000;
  if (byte_at(bytes, 0) != 0) {
    return Fit::kNo;
  }
  if (bytes.size() < 8) {
    return bytes.size() < 4 || big_endian_32(bytes, 0) <= kMaxStartBytes ? Fit::kMaybe : Fit::kNo;
  }
  const auto size = big_endian_32(bytes, 0);
  const auto code = big_endian_32(bytes, 4);
  const bool request = std::find(kRequests.begin(), kRequests.end(), code) != kRequests.end();
  return size >= 8 && size <= kMaxStartBytes && (request || code == kVersion3) ? Fit::kYes
                                                                               : Fit::kNo;
}

// A question with its length before it: one question, no answer, no reserved bit.
Fit fits_dns(std::string_view bytes) {
  constexpr std::size_t kHeaderBytes = 14;  // with the length
  if (bytes.size() < kHeaderBytes) {
    const bool long_enough = bytes.size() < 2 || (byte_at(bytes, 0) << 8 | byte_at(bytes, 1)) >= 17;
    const bool question = bytes.size() < 5 || (byte_at(bytes, 4) & 0xf8U) == 0;
    return long_enough && question ? Fit::kMaybe : Fit::kNo;
  }
  const bool question = (byte_at(bytes, 4) & 0xf8U) == 0;
  const bool one = byte_at(bytes, 6) == 0 && byte_at(bytes, 7) == 1;
  const bool no_answers = big_endian_32(bytes, 8) == 0;
  return question && one && no_answers ? Fit::kYes : Fit::kNo;
}

struct Candidate {
  AppProtocol protocol;
  Fit (*fits)(std::string_view);
};

Fit fits_ssh(std::string_view bytes) {
  return fits_word(bytes, "SSH-");
}
Fit fits_amqp(std::string_view bytes) {
  return fits_word(bytes, "AMQP");
}

// The surest first: DNS over TCP has the weakest sign.
constexpr std::array<Candidate, 10> kCandidates{{
    {AppProtocol::kTls, fits_tls},
    {AppProtocol::kSsh, fits_ssh},
    {AppProtocol::kAmqp, fits_amqp},
    {AppProtocol::kHttp, fits_http1},
    {AppProtocol::kMqtt, fits_mqtt},
    {AppProtocol::kRedis, fits_redis},
    {AppProtocol::kPostgres, fits_postgres},
    // A greeting is shorter than what would tell it from a MongoDB length.
    {AppProtocol::kSocks5, fits_socks5},
    {AppProtocol::kMongodb, fits_mongodb},
    {AppProtocol::kDns, fits_dns},
}};

Result<std::optional<Classified>> describe(AppProtocol protocol, std::string_view bytes) {
  Classified found{.protocol = protocol};
  if (protocol == AppProtocol::kTls) {
    TRY(found.hello, read_client_hello(bytes));
    if (!found.hello) {
      return std::nullopt;
    }
  }
  if (protocol == AppProtocol::kHttp) {
    const auto preface = fits_word(bytes, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    if (preface == Fit::kMaybe) {
      return std::nullopt;
    }
    found.http2 = preface == Fit::kYes;
  }
  return std::optional{std::move(found)};
}

}  // namespace

Result<std::optional<Classified>> classify(std::string_view bytes) {
  if (bytes.empty()) {
    return std::nullopt;
  }
  bool undecided = false;
  for (const auto& candidate : kCandidates) {
    const auto fit = candidate.fits(bytes);
    if (fit == Fit::kYes && !undecided) {
      return describe(candidate.protocol, bytes);
    }
    undecided = undecided || fit != Fit::kNo;
  }
  if (undecided && bytes.size() < kMaxPeekBytes) {
    return std::nullopt;
  }
  return std::optional{Classified{}};
}

}  // namespace atl::egress
