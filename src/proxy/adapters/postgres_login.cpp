#include "proxy/adapters/postgres_login.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <cstring>

#include "base/random.h"
#include "base/strings.h"
#include "proxy/adapters/postgres_messages.h"

namespace atl::proxy::adapters {
namespace {

constexpr std::uint32_t kOk = 0;
constexpr std::uint32_t kCleartext = 3;
constexpr std::uint32_t kMd5 = 5;
constexpr std::uint32_t kScram = 10;
constexpr std::uint32_t kScramContinue = 11;
constexpr std::uint32_t kScramFinal = 12;
constexpr std::size_t kSaltBytes = 4;  // of MD5
constexpr std::uint64_t kMinIterations = 4096;
constexpr std::uint64_t kMaxIterations = 200'000;  // what a hostile server may make us compute

std::unexpected<Error> out_of_order() {
  return fail(Code::kInvalidArgument, "the server breaks the order of a login");
}

std::string hmac(std::string_view key, std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size);
  return {reinterpret_cast<const char*>(digest), size};
}

std::string md5_hex(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (::EVP_Digest(text.data(), text.size(), digest, &size, ::EVP_md5(), nullptr) != 1) {
    return {};
  }
  return hex({reinterpret_cast<const char*>(digest), size});
}

std::string with_zero(std::string_view text) {
  std::string out{text};
  out.push_back('\0');
  return out;
}

// "r=...,s=...,i=..." -> the value of one letter.
std::string_view attribute(std::string_view message, char letter) {
  for (const std::string_view part : split(message, ',')) {
    if (part.size() >= 2 && part[0] == letter && part[1] == '=') {
      return part.substr(2);
    }
  }
  return {};
}

}  // namespace

PostgresLogin::PostgresLogin(std::string_view username, std::string_view password, bool encrypted,
                             std::string nonce)
    : username_(username), password_(password), encrypted_(encrypted), nonce_(std::move(nonce)) {}

PostgresLogin::~PostgresLogin() {
  ::explicit_bzero(password_.data(), password_.size());
}

Result<std::string> PostgresLogin::answer(std::string_view body) {
  if (body.size() < kSaltBytes) {
    return out_of_order();
  }
  const std::uint32_t kind = read_postgres_u32(body);
  body.remove_prefix(4);
  switch (kind) {
    case kOk:
      // After SCRAM only from a server that has proved itself.
      if (state_ == State::kFirst || state_ == State::kFinal) {
        return out_of_order();
      }
      state_ = State::kDone;
      return std::string{};
    case kCleartext:
      if (state_ != State::kBegin) {
        return out_of_order();
      }
      if (!encrypted_) {
        return fail(Code::kPermissionDenied,
                    "the server wants the password in the clear over a connection that is not "
                    "encrypted; use tlsMode terminate-reoriginate, or SCRAM");
      }
      state_ = State::kPassword;
      return postgres_message('p', with_zero(password_));
    case kMd5: {
      if (state_ != State::kBegin || body.size() != kSaltBytes) {
        return out_of_order();
      }
      state_ = State::kPassword;
      const std::string inner = md5_hex(concat(password_, username_));
      return postgres_message('p', with_zero(concat("md5", md5_hex(concat(inner, body)))));
    }
    case kScram:
      return begin_scram(body);
    case kScramContinue:
      return continue_scram(body);
    case kScramFinal:
      return finish_scram(body);
    default:
      return fail(Code::kUnimplemented,
                  "the server wants a way to log in that a stored password cannot serve");
  }
}

Result<std::string> PostgresLogin::begin_scram(std::string_view mechanisms) {
  if (state_ != State::kBegin) {
    return out_of_order();
  }
  bool offered = false;
  for (const std::string_view mechanism : split(mechanisms, '\0')) {
    offered = offered || mechanism == "SCRAM-SHA-256";
  }
  if (!offered) {
    return fail(Code::kUnimplemented, "the server offers no SCRAM-SHA-256");
  }
  state_ = State::kFirst;
  // The name is in the startup message; here it is ignored.
  const std::string first = concat("n,,n=,r=", nonce_);
  return postgres_message('p',
                          concat(with_zero("SCRAM-SHA-256"),
                                 postgres_u32(static_cast<std::uint32_t>(first.size())), first));
}

Result<std::string> PostgresLogin::continue_scram(std::string_view challenge) {
  if (state_ != State::kFirst) {
    return out_of_order();
  }
  const std::string_view nonce = attribute(challenge, 'r');
  const auto salt = base64_decode(attribute(challenge, 's'));
  const auto iterations = parse_u64(attribute(challenge, 'i'));
  if (!nonce.starts_with(nonce_) || nonce.size() == nonce_.size() || !salt || salt->empty() ||
      !iterations || *iterations < kMinIterations || *iterations > kMaxIterations) {
    return fail(Code::kInvalidArgument, "the server's SCRAM challenge is not acceptable");
  }
  unsigned char salted[SHA256_DIGEST_LENGTH];
  if (::PKCS5_PBKDF2_HMAC(password_.data(), static_cast<int>(password_.size()),
                          reinterpret_cast<const unsigned char*>(salt->data()),
                          static_cast<int>(salt->size()), static_cast<int>(*iterations),
                          ::EVP_sha256(), sizeof salted, salted) != 1) {
    return fail(Code::kInternal, "computing a SCRAM proof failed");
  }
  const std::string_view key{reinterpret_cast<const char*>(salted), sizeof salted};
  const std::string without_proof = concat("c=biws,r=", nonce);
  const std::string signed_text = concat("n=,r=", nonce_, ",", challenge, ",", without_proof);
  const std::string client_key = hmac(key, "Client Key");
  std::string proof = hmac(sha256(client_key), signed_text);
  for (std::size_t i = 0; i < proof.size(); ++i) {
    proof[i] = static_cast<char>(proof[i] ^ client_key[i]);
  }
  server_signature_ = hmac(hmac(key, "Server Key"), signed_text);
  ::explicit_bzero(salted, sizeof salted);
  state_ = State::kFinal;
  return postgres_message('p', concat(without_proof, ",p=", base64_encode(proof)));
}

Result<std::string> PostgresLogin::finish_scram(std::string_view proof) {
  if (state_ != State::kFinal) {
    return out_of_order();
  }
  const auto signature = base64_decode(attribute(proof, 'v'));
  if (!signature || !equal_constant_time(*signature, server_signature_)) {
    return fail(Code::kPermissionDenied, "the server does not know the stored password itself");
  }
  state_ = State::kProven;
  return std::string{};
}

}  // namespace atl::proxy::adapters
