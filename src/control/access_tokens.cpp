#include "control/access_tokens.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "base/log.h"
#include "base/random.h"
#include "base/strings.h"

namespace atl::control {
namespace {

constexpr const char* kKind = "token-seed";
constexpr const char* kId = "seed";
constexpr std::string_view kBoundTo = "token-seed/seed";
constexpr std::size_t kSeedBytes = 32;

Result<std::optional<store::Record>> find_seed(store::Store& store) {
  TRY(auto records, store.list_records(kKind));
  return records.empty() ? std::nullopt : std::optional{std::move(records.front())};
}

secrets::Plaintext make_seed() {
  std::string bytes = random_bytes(kSeedBytes);
  secrets::Plaintext seed{bytes};
  secrets::wipe(bytes);
  return seed;
}

Task<> keep_seed(StoreAccess store, const secrets::Keyring& keyring, const WallClock& clock,
                 const secrets::Plaintext& seed, const std::optional<store::Record>& before) {
  CO_TRY(std::string body, keyring.seal(seed, kBoundTo));
  const std::int64_t expected = before ? before->version : 0;
  const store::Record record{.kind = kKind,
                             .id = kId,
                             .version = expected + 1,
                             .body = std::move(body),
                             .created_at = before ? before->created_at : clock.now(),
                             .updated_at = clock.now()};
  co_return co_await store.run(
      [&](store::Store& rows) { return rows.put_record(record, expected); });
}

}  // namespace

std::string AccessTokens::token(std::string_view purpose, std::string_view id) const {
  const std::string text = concat(purpose, "/", id);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const auto* made = ::HMAC(
      ::EVP_sha256(), seed_.reveal().data(), static_cast<int>(seed_.reveal().size()),
      reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &size);
  CHECK(made != nullptr);
  return hex({reinterpret_cast<const char*>(digest.data()), size});
}

std::string AccessTokens::agent_token(std::string_view sandbox_id) const {
  return token("agent", sandbox_id);
}

std::string AccessTokens::traffic_token(std::string_view sandbox_id) const {
  return token("traffic", sandbox_id);
}

Task<secrets::Plaintext> load_or_make_token_seed(StoreAccess store, const secrets::Keyring& keyring,
                                                 const WallClock& clock) {
  CO_TRY(const auto before, co_await store.run(find_seed));
  auto opened =
      before ? keyring.open(before->body, kBoundTo) : Result<secrets::Plaintext>{make_seed()};
  if (opened && before && keyring.is_current(before->body)) {
    co_return opened;
  }
  if (!opened) {
    // Clients ask for their tokens again when they connect; without a server they have nothing.
    LOG_ERROR("the seed of access tokens cannot be opened; all tokens are others now",
              {"error", opened.error()});
    opened = make_seed();
  }
  CO_TRY_DO(co_await keep_seed(store, keyring, clock, *opened, before));
  co_return opened;
}

}  // namespace atl::control
