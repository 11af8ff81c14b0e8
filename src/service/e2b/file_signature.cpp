#include "service/e2b/file_signature.h"

#include <openssl/evp.h>

#include <array>

#include "base/random.h"
#include "base/strings.h"
#include "guest/wire.h"

namespace atl::service::e2b {
namespace {

constexpr std::string_view kVersion = "v1_";
constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kDigestCharacters = 43;  // in base64 without padding

using DigestContext = std::unique_ptr<EVP_MD_CTX, decltype(&::EVP_MD_CTX_free)>;

DigestContext make_context() {
  DigestContext context{::EVP_MD_CTX_new(), &::EVP_MD_CTX_free};
  CHECK(context != nullptr);
  return context;
}

void add(EVP_MD_CTX* context, std::string_view bytes) {
  CHECK(::EVP_DigestUpdate(context, bytes.data(), bytes.size()) == 1);
}

}  // namespace

struct SignerSearch::State {
  std::string digest;  // as it was sent
  std::string tail;    // behind the token
  DigestContext head = make_context();
  DigestContext scratch = make_context();
};

void SignerSearch::Free::operator()(State* state) const {
  delete state;
}

Result<SignerSearch> SignerSearch::begin(const FileSignature& signature, UnixMillis now) {
  TRY_DO(signature.check_time(now));
  const std::string_view text = signature.signature;
  const bool possible = text.starts_with(kVersion) &&
                        text.size() == kVersion.size() + kDigestCharacters &&
                        signature.path.size() <= guest::kMaxPathBytes &&
                        signature.user.size() <= guest::kMaxUserBytes;
  auto digest = possible ? base64_decode(concat(text.substr(kVersion.size()), "="))
                         : std::optional<std::string>{};
  if (!digest || digest->size() != kDigestBytes) {
    return fail(Code::kUnauthenticated, "invalid signature");
  }
  std::unique_ptr<State, Free> state{new State};
  state->digest = *std::move(digest);
  state->tail = signature.expiration.empty() ? "" : concat(":", signature.expiration);
  CHECK(::EVP_DigestInit_ex(state->head.get(), ::EVP_sha256(), nullptr) == 1);
  add(state->head.get(),
      concat(signature.path, ":", signature.operation, ":", signature.user, ":"));
  return SignerSearch{std::move(state)};
}

bool SignerSearch::is_signer(std::string_view token) const {
  EVP_MD_CTX* context = state_->scratch.get();
  CHECK(::EVP_MD_CTX_copy_ex(context, state_->head.get()) == 1);
  add(context, token);
  add(context, state_->tail);
  std::array<unsigned char, kDigestBytes> digest{};
  CHECK(::EVP_DigestFinal_ex(context, digest.data(), nullptr) == 1);
  return equal_constant_time({reinterpret_cast<const char*>(digest.data()), digest.size()},
                             state_->digest);
}

std::string sign_file(std::string_view path, std::string_view operation, std::string_view user,
                      std::string_view token, std::string_view expiration) {
  std::string text = concat(path, ":", operation, ":", user, ":", token);
  if (!expiration.empty()) {
    text += concat(":", expiration);
  }
  std::string encoded = base64_encode(sha256(text));
  while (encoded.ends_with('=')) {
    encoded.pop_back();
  }
  return concat(kVersion, encoded);
}

std::optional<FileSignature> FileSignature::of(const http::Request& request) {
  auto signature = http::query_value(request.query, "signature");
  if (!signature || signature->empty()) {
    return std::nullopt;
  }
  const auto value = [&request](std::string_view name) {
    return http::query_value(request.query, name).value_or("");
  };
  return FileSignature{.path = value("path"),
                       .operation = request.method == "POST" ? "write" : "read",
                       .user = value("username"),
                       .expiration = value("signature_expiration"),
                       .signature = *std::move(signature)};
}

bool FileSignature::is_of(std::string_view token) const {
  return equal_constant_time(sign_file(path, operation, user, token, expiration), signature);
}

Result<> FileSignature::check_time(UnixMillis now) const {
  if (expiration.empty()) {
    return {};
  }
  const auto seconds = parse_i64(expiration);
  if (!seconds || *seconds < now / 1000) {
    return fail(Code::kUnauthenticated, "signature is already expired");
  }
  return {};
}

}  // namespace atl::service::e2b
