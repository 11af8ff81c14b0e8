#include "control/authorities.h"

#include "base/bytes.h"
#include "base/json_fields.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/entry.h"
#include "control/owned_records.h"
#include "tls/mint.h"

namespace atl::control {
namespace {

constexpr const char* kRecordKind = "authority";
constexpr std::int64_t kDayMs = 24LL * 3600 * 1000;

std::string bound_to(std::string_view sandbox_id) {
  return concat("authority/", sandbox_id);
}

// One that overwrites its key when the last user lets go.
std::shared_ptr<egress::Authority> make_authority() {
  return {new egress::Authority, [](egress::Authority* authority) {
            secrets::wipe(authority->key_pem);
            delete authority;
          }};
}

}  // namespace

Authorities::Authorities(StoreAccess store, const secrets::Keyring& keyring, const WallClock& clock,
                         Sandboxes& sandboxes)
    : store_(store), keyring_(keyring), clock_(clock), sandboxes_(sandboxes) {
  sandboxes_.add_documents(*this);
}

Authorities::~Authorities() {
  sandboxes_.remove_documents(*this);
}

Task<> Authorities::start() {
  CO_TRY(auto records, co_await load_owned_records(store_, kRecordKind));
  for (store::Record& record : records) {
    entries_.insert_or_assign(record.id, Entry{.sealed = std::move(record.body),
                                               .version = record.version,
                                               .issued_at = record.updated_at,
                                               .opened = nullptr});
  }
  co_return ok();
}

// Also one from the future is no good: the clock was wrong when it was made.
bool Authorities::is_good(const Entry& entry) const {
  const std::int64_t age_ms = clock_.now() - entry.issued_at;
  return !entry.sealed.empty() && age_ms >= -kDayMs &&
         age_ms < (kAuthorityDays - kAuthorityRenewalDays) * kDayMs;
}

Result<Authorities::Pointer> Authorities::open(const std::string& sandbox_id,
                                               const Entry& entry) const {
  TRY(const auto packed, keyring_.open(entry.sealed, bound_to(sandbox_id)));
  ByteReader reader{packed.reveal()};
  auto authority = make_authority();
  authority->certificate_pem = reader.string();
  authority->key_pem = reader.view();
  TRY_DO(reader.finish());
  return Pointer{std::move(authority)};
}

Task<Authorities::Pointer> Authorities::authority(std::string sandbox_id) {
  for (;;) {
    const auto found = entries_.find(sandbox_id);
    if (found != entries_.end() && is_good(found->second)) {
      if (found->second.opened != nullptr) {
        co_return found->second.opened;
      }
      auto opened = open(sandbox_id, found->second);
      if (opened) {
        found->second.opened = *opened;
        co_return *std::move(opened);
      }
      // Its key is gone: a new one takes its place.
      LOG_WARN("the authority of a sandbox cannot be opened", {"sandbox", sandbox_id},
               {"error", opened.error()});
    }
    const auto other = issuing_.find(sandbox_id);
    if (other == issuing_.end()) {
      co_return co_await shielded(issue(sandbox_id));
    }
    const auto issued = other->second;
    CO_TRY_DO(co_await issued->wait());
  }
}

Task<Authorities::Pointer> Authorities::issue(std::string sandbox_id) {
  const auto done = std::make_shared<Event>();
  issuing_.emplace(sandbox_id, done);
  struct Finish {
    Authorities& owner;
    const std::string& id;
    Event& event;
    ~Finish() {
      owner.issuing_.erase(id);
      event.set();
    }
  } const finish{*this, sandbox_id, *done};
  const auto rows = sandboxes_.all();
  const auto row = std::ranges::find(rows, sandbox_id, &Sandbox::id);
  if (row == rows.end()) {
    co_return no_such_sandbox(sandbox_id);
  }
  CO_TRY(auto minted, tls::mint_authority({.common_name = concat("Atoll sandbox ", sandbox_id),
                                           .valid_days = kAuthorityDays}));
  auto authority = make_authority();
  authority->certificate_pem = std::move(minted.certificate_pem);
  authority->key_pem = minted.key_pem;
  secrets::wipe(minted.key_pem);
  ByteWriter writer;
  writer.string(authority->certificate_pem).string(authority->key_pem);
  std::string bytes = std::move(writer).bytes();
  const secrets::Plaintext packed{bytes};
  secrets::wipe(bytes);
  const auto before = entries_.find(sandbox_id);
  const std::int64_t expected = before == entries_.end() ? 0 : before->second.version;
  Entry entry{.sealed = {},
              .version = expected + 1,
              .issued_at = clock_.now(),
              .opened = std::move(authority)};
  CO_TRY(entry.sealed, keyring_.seal(packed, bound_to(sandbox_id)));
  const store::Record record{.kind = kRecordKind,
                             .id = sandbox_id,
                             .team_id = row->team_id,
                             .owner_id = sandbox_id,
                             .version = entry.version,
                             .body = entry.sealed,
                             .created_at = entry.issued_at,
                             .updated_at = entry.issued_at};
  CO_TRY_DO(
      co_await store_.run([&](store::Store& store) { return store.put_record(record, expected); }));
  const Pointer made = entry.opened;
  entries_.insert_or_assign(sandbox_id, std::move(entry));
  LOG_INFO("authority made", {"sandbox", sandbox_id}, {"version", expected + 1});
  if (issued_) {
    issued_(sandbox_id);
  }
  co_return made;
}

}  // namespace atl::control
