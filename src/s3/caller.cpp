#include "s3/caller.h"

#include <algorithm>

#include "base/random.h"
#include "base/scope.h"
#include "io/offload.h"
#include "io/reactor.h"
#include "s3/limits.h"
#include "s3/xml.h"

namespace atl::s3 {
namespace {

bool is_success(int status) {
  return status >= 200 && status < 300;
}

// Between half and the whole of the pause, so that many callers do not come back together.
Duration backoff(int attempt) {
  const Duration pause = kFirstBackoff * (1 << attempt);
  const auto random = static_cast<unsigned char>(random_bytes(1)[0]);
  return pause / 2 + pause / 2 * random / 255;
}

Duration time_for(const Call& call) {
  return kAttemptTimeout + std::chrono::seconds{call.body.size() / kLeastBytesPerSecond};
}

bool is_worth_repeating(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded;
}

// Counts for as long as it lives.
class Lookup {
 public:
  explicit Lookup(TeamShare& share) : share_(share) { ++share_.lookups; }
  ~Lookup() {
    --share_.lookups;
    share_.looked_up.set();
  }
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

 private:
  TeamShare& share_;
};

}  // namespace

// A team whose name server does not answer waits for itself and for nobody else.
Task<std::vector<io::IpAddress>> Caller::look_up() {
  while (share_.lookups >= kMaxTeamLookups) {
    share_.looked_up.clear();
    CO_TRY_DO(co_await share_.looked_up.wait());
  }
  const Lookup turn{share_};
  co_return co_await io::resolve_host(surroundings_.resolvers, endpoint_.url.host);
}

Task<std::unique_ptr<http::Client>> Caller::take_client() {
  const Instant now = surroundings_.reactor.now();
  std::erase_if(idle_, [now](const Idle& idle) { return now - idle.since > kIdleTime; });
  if (!idle_.empty()) {
    auto client = std::move(idle_.back().client);
    idle_.pop_back();
    co_return std::move(client);
  }
  CO_TRY(const auto addresses, co_await look_up());
  CO_TRY(const auto address, surroundings_.policy.choose(endpoint_.url, addresses));
  http::Url url = endpoint_.url;
  url.address = address.text();
  co_return std::make_unique<http::Client>(surroundings_.reactor, std::move(url),
                                           &surroundings_.tls);
}

void Caller::park(std::unique_ptr<http::Client> client) {
  if (idle_.size() < kMaxIdleClients) {
    idle_.push_back({std::move(client), surroundings_.reactor.now()});
  }
}

// A part takes some milliseconds, which the loop does not have.
Task<std::string> Caller::digest_of(const Call& call) {
  if (call.body.size() < kHashedElsewhereBytes) {
    co_return hex(sha256(call.body));
  }
  co_return co_await surroundings_.threads.run(
      [&call] { return Result<std::string>{hex(sha256(call.body))}; });
}

Task<Reply> Caller::attempt(const Call& call) {
  CO_TRY(auto client, co_await take_client());
  CO_TRY(std::string digest, co_await digest_of(call));
  const std::string path = encode_path(concat(endpoint_.base_path, "/", call.key));
  const std::string query = encode_query(call.query);
  http::Headers headers = sign({.method = call.method,
                                .host = http::host_field(endpoint_.url),
                                .path = path,
                                .query = query,
                                .headers = call.headers,
                                .payload_sha256 = std::move(digest)},
                               credentials_, endpoint_.region, surroundings_.clock.now() / 1000);
  auto sending = client->send(call.method, query.empty() ? path : concat(path, "?", query),
                              std::move(headers), call.body);
  CO_TRY(auto response, co_await std::move(sending));
  Reply reply{.status = response->status(),
              .headers = response->headers(),
              .body = {},
              .client = nullptr,
              .response = nullptr};
  if (call.streamed && is_success(reply.status)) {
    reply.client = std::move(client);
    reply.response = std::move(response);
    co_return std::move(reply);
  }
  const std::size_t most = is_success(reply.status) ? kMaxXmlBytes : kMaxErrorBytes;
  auto body = co_await http::read_all(response->body(), most);
  if (!body && is_success(reply.status)) {
    co_return fail(std::move(body).error());
  }
  if (body) {
    reply.body = *std::move(body);
    park(std::move(client));
  }
  co_return std::move(reply);
}

Task<Reply> Caller::run_once(const Call& call) {
  auto reply = co_await with_deadline(time_for(call), attempt(call));
  if (!reply) {
    if (!is_worth_repeating(reply.error())) {
      co_return std::move(reply);
    }
    co_return fail(Code::kUnavailable,
                   concat("the bucket's server did not answer: ", reply.error().message),
                   "endpoint_unreachable");
  }
  if (!is_success(reply->status)) {
    co_return fail(error_of_answer(reply->status, reply->headers, reply->body));
  }
  co_return std::move(reply);
}

Task<Reply> Caller::run(const Call& call) {
  for (int attempt = 0;; ++attempt) {
    auto reply = co_await run_once(call);
    if (reply || !is_worth_repeating(reply.error()) || attempt + 1 == kMaxAttempts) {
      co_return std::move(reply);
    }
    CO_TRY_DO(co_await sleep_for(backoff(attempt)));
  }
}

}  // namespace atl::s3
