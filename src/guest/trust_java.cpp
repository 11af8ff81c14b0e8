#include "guest/trust_java.h"

#include <array>
#include <bit>
#include <cstdint>

#include "base/strings.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----";
constexpr std::string_view kEnd = "-----END CERTIFICATE-----";
constexpr std::uint32_t kMagic = 0xFEEDFEED;
constexpr std::uint32_t kVersion = 2;
constexpr std::uint32_t kTrustedCertificate = 2;
constexpr std::string_view kPassword = "changeit";
// Part of the format: what the digest of every store begins with.
constexpr std::string_view kSalt = "Mighty Aphrodite";

template <class Integer>
void put(std::string& out, Integer value) {
  for (std::size_t i = sizeof value; i-- > 0;) {
    out += static_cast<char>(value >> (8 * i));
  }
}

void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint16_t>(text.size()));
  out += text;
}

void add_block(std::array<std::uint32_t, 5>& state, std::string_view block) {
  std::array<std::uint32_t, 80> words{};
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      words[i] = words[i] << 8 | static_cast<std::uint8_t>(block[4 * i + j]);
    }
  }
  for (std::size_t i = 16; i < 80; ++i) {
    words[i] = std::rotl(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
  }
  auto [a, b, c, d, e] = state;
  for (std::size_t i = 0; i < 80; ++i) {
    const auto [mixed, constant] = i < 20   ? std::pair{(b & c) | (~b & d), 0x5A827999U}
                                   : i < 40 ? std::pair{b ^ c ^ d, 0x6ED9EBA1U}
                                   : i < 60 ? std::pair{(b & c) | (b & d) | (c & d), 0x8F1BBCDCU}
                                            : std::pair{b ^ c ^ d, 0xCA62C1D6U};
    const std::uint32_t next = std::rotl(a, 5) + mixed + e + constant + words[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  const std::array<std::uint32_t, 5> sums{a, b, c, d, e};
  for (std::size_t i = 0; i < state.size(); ++i) {
    state[i] += sums[i];
  }
}

}  // namespace

std::string sha1(std::string_view bytes) {
  std::string padded{bytes};
  padded += '\x80';
  padded.resize((padded.size() + 8 + 63) / 64 * 64 - 8, '\0');
  put(padded, static_cast<std::uint64_t>(bytes.size()) * 8);
  std::array<std::uint32_t, 5> state{0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
  for (std::size_t at = 0; at < padded.size(); at += 64) {
    add_block(state, std::string_view{padded}.substr(at, 64));
  }
  std::string digest;
  for (const std::uint32_t word : state) {
    put(digest, word);
  }
  return digest;
}

std::string java_key_store(std::string_view pem_bundle) {
  std::string entries;
  std::uint32_t count = 0;
  while (count < kMaxTrustCertificates) {
    const auto begin = pem_bundle.find(kBegin);
    const auto end = begin == pem_bundle.npos ? begin : pem_bundle.find(kEnd, begin);
    if (end == pem_bundle.npos) {
      break;
    }
    std::string text{pem_bundle.substr(begin + kBegin.size(), end - begin - kBegin.size())};
    pem_bundle.remove_prefix(end + kEnd.size());
    std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
    const auto der = base64_decode(text);
    if (!der || der->empty()) {
      continue;
    }
    put(entries, kTrustedCertificate);
    put_text(entries, concat("root-", count++));
    put(entries, std::uint64_t{0});  // when it was made
    put_text(entries, "X.509");
    put(entries, static_cast<std::uint32_t>(der->size()));
    entries += *der;
  }
  std::string store;
  put(store, kMagic);
  put(store, kVersion);
  put(store, count);
  store += entries;
  std::string guarded;
  for (const char c : kPassword) {
    put(guarded, static_cast<std::uint16_t>(c));
  }
  return store + sha1(concat(guarded, kSalt, store));
}

}  // namespace atl::guest
