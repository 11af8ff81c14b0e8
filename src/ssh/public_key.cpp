#include "ssh/public_key.h"

#include <array>
#include <cstdint>

#include "base/random.h"
#include "base/strings.h"

namespace atl::ssh {
namespace {

constexpr std::size_t kMaxCommentBytes = 1024;
constexpr std::size_t kMinRsaBits = 2048;
constexpr std::size_t kMaxRsaBits = 16384;
constexpr std::size_t kMaxApplicationBytes = 256;  // of a security key

// The fields of a blob: strings with a length of four bytes, most significant first.
class BlobReader {
 public:
  explicit BlobReader(std::string_view input) : input_(input) {}

  std::string_view field() {
    constexpr std::size_t kLengthBytes = 4;
    if (input_.size() < kLengthBytes) {
      ok_ = false;
      return {};
    }
    std::uint32_t size = 0;
    for (const char byte : input_.substr(0, kLengthBytes)) {
      size = size << 8U | static_cast<unsigned char>(byte);
    }
    input_.remove_prefix(kLengthBytes);
    if (size > input_.size()) {
      ok_ = false;
      return {};
    }
    const auto taken = input_.substr(0, size);
    input_.remove_prefix(size);
    return taken;
  }
  bool finished() const { return ok_ && input_.empty(); }

 private:
  std::string_view input_;
  bool ok_ = true;
};

// Bits of a positive number in its shortest form; 0 for any other.
std::size_t number_bits(std::string_view number) {
  if (number.empty() || (static_cast<unsigned char>(number.front()) & 0x80U) != 0) {
    return 0;
  }
  if (number.front() == '\0') {
    number.remove_prefix(1);
    if (number.empty() || (static_cast<unsigned char>(number.front()) & 0x80U) == 0) {
      return 0;
    }
  }
  std::size_t bits = number.size() * 8;
  for (auto first = static_cast<unsigned char>(number.front()); (first & 0x80U) == 0;
       first = static_cast<unsigned char>(first << 1U)) {
    --bits;
  }
  return bits;
}

struct Curve {
  std::string_view type;
  std::string_view name;
  std::size_t point_bytes;
  bool security_key;
};
constexpr std::array<Curve, 4> kCurves{
    {{"ecdsa-sha2-nistp256", "nistp256", 65, false},
     {"ecdsa-sha2-nistp384", "nistp384", 97, false},
     {"ecdsa-sha2-nistp521", "nistp521", 133, false},
     {"sk-ecdsa-sha2-nistp256@openssh.com", "nistp256", 65, true}}};

std::unexpected<Error> malformed() {
  return fail(Code::kInvalidArgument, "the public key is damaged: copy the whole line again");
}

Result<> check_application(BlobReader& reader) {
  const auto application = reader.field();
  if (application.empty() || application.size() > kMaxApplicationBytes) {
    return malformed();
  }
  return {};
}

Result<> check_curve(const Curve& curve, BlobReader& reader) {
  if (reader.field() != curve.name) {
    return malformed();
  }
  const auto point = reader.field();
  constexpr char kUncompressed = 4;
  if (point.size() != curve.point_bytes || point.front() != kUncompressed) {
    return malformed();
  }
  if (curve.security_key) {
    TRY_DO(check_application(reader));
  }
  return {};
}

Result<> check_fields(std::string_view type, BlobReader& reader) {
  constexpr std::size_t kEd25519Bytes = 32;
  if (type == "ssh-ed25519" || type == "sk-ssh-ed25519@openssh.com") {
    if (reader.field().size() != kEd25519Bytes) {
      return malformed();
    }
    return type.starts_with("sk-") ? check_application(reader) : Result<>{};
  }
  for (const Curve& curve : kCurves) {
    if (curve.type == type) {
      return check_curve(curve, reader);
    }
  }
  if (type == "ssh-rsa") {
    const std::size_t exponent_bits = number_bits(reader.field());
    const std::size_t bits = number_bits(reader.field());
    if (exponent_bits == 0 || bits == 0) {
      return malformed();
    }
    if (bits < kMinRsaBits || bits > kMaxRsaBits) {
      return fail(Code::kInvalidArgument,
                  concat("an RSA key must have ", kMinRsaBits, " to ", kMaxRsaBits,
                         " bits, this one has ", bits, "; better: ssh-keygen -t ed25519"));
    }
    return {};
  }
  return fail(Code::kInvalidArgument,
              "keys of this type are not accepted; use ssh-ed25519, ecdsa-sha2-nistp256, -384, "
              "-521, ssh-rsa with 2048 bits or more, or a security key (sk-...)");
}

}  // namespace

Result<PublicKey> parse_public_key_blob(std::string_view blob) {
  if (blob.size() > kMaxPublicKeyLineBytes) {
    return malformed();
  }
  BlobReader reader{blob};
  PublicKey key{.type = std::string{reader.field()}, .blob = std::string{blob}, .comment = {}};
  TRY_DO(check_fields(key.type, reader));
  if (!reader.finished()) {
    return malformed();
  }
  return key;
}

Result<PublicKey> parse_public_key(std::string_view line) {
  line = trim(line);
  if (line.empty() || line.size() > kMaxPublicKeyLineBytes ||
      line.find_first_of("\r\n\0") != line.npos) {
    return fail(Code::kInvalidArgument,
                "a public key is one line like \"ssh-ed25519 AAAA... me@laptop\": the content of "
                "a .pub file");
  }
  if (line.starts_with("-----")) {
    return fail(Code::kInvalidArgument,
                "this is a private key: keep it to yourself, and send the .pub file");
  }
  const auto first_space = line.find_first_of(" \t");
  const std::string_view type = line.substr(0, first_space);
  std::string_view rest =
      first_space == line.npos ? std::string_view{} : trim(line.substr(first_space));
  const auto second_space = rest.find_first_of(" \t");
  const auto blob = base64_decode(rest.substr(0, second_space));
  if (!blob || blob->empty()) {
    return malformed();
  }
  TRY(PublicKey key, parse_public_key_blob(*blob));
  if (key.type != type) {
    return malformed();
  }
  if (second_space != rest.npos) {
    key.comment = to_valid_utf8(trim(rest.substr(second_space)).substr(0, kMaxCommentBytes));
  }
  return key;
}

std::string format_public_key(const PublicKey& key) {
  return concat(key.type, " ", base64_encode(key.blob));
}

std::string fingerprint_sha256(std::string_view blob) {
  std::string text = base64_encode(sha256(blob));
  while (text.ends_with('=')) {
    text.pop_back();
  }
  return concat("SHA256:", text);
}

}  // namespace atl::ssh
