// Credentials that somebody else hands out: OAuth2 tokens, JSON from a URL or a program.
//
// What was fetched is kept until shortly before it ends, or as long as the binding says. One fetch
// at a time for each source, whoever waits; one that failed is not tried again for a moment. A new
// version of the source makes everything that was kept worthless. Addresses that are not public are
// dialled only where the operator allows it, and the address that is judged is the one that is
// dialled. No error repeats what the other side said: it may be a secret. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "control/credential_sources.h"
#include "io/offload.h"
#include "io/reactor.h"
#include "s3/endpoint.h"
#include "tls/context.h"

namespace atl::control {

using SharedValues = std::shared_ptr<const SecretValues>;  // of the cache and requests under way

class CredentialFetcher {
 public:
  struct Parts {
    io::Reactor& reactor;
    io::OffloadPool& resolvers;
    const tls::Context& tls;
    CredentialSources& sources;
    s3::EndpointPolicy endpoints;   // which may be dialled though not public, also without TLS
    std::string command_directory;  // of the operator's programs; empty: none may be run
  };
  explicit CredentialFetcher(Parts parts) : parts_(std::move(parts)) {}
  CredentialFetcher(const CredentialFetcher&) = delete;
  CredentialFetcher& operator=(const CredentialFetcher&) = delete;

  // REQUIRES: a dynamic kind.
  Task<SharedValues> values(OpenedSource opened, std::int64_t cache_seconds);

 private:
  struct Fetched {
    SecretValues values;
    std::optional<std::int64_t> expires_in_seconds;  // what the other side said
  };
  struct Cached {
    std::int64_t version = 0;
    SharedValues values;
    Instant fetched_at;
    std::optional<Instant> expires_at;
    std::optional<Error> error;  // of the last try
  };
  struct Flight {
    std::int64_t version = 0;
    Event landed;
  };
  using Key = std::pair<std::string, std::string>;  // team and name

  static bool is_fresh(const Cached& cached, std::int64_t version, std::int64_t cache_seconds,
                       Instant now);
  Task<> fly(OpenedSource opened);
  void keep(const CredentialSource& source, Result<Fetched> fetched);
  Task<Fetched> fetch(OpenedSource opened);
  Task<Fetched> fetch_token(OpenedSource opened);
  Task<Fetched> fetch_url(OpenedSource opened);
  Task<Fetched> run_command(OpenedSource opened);
  Task<std::string> call(std::string url, std::string method, http::Headers headers,
                         std::string body);

  Parts parts_;
  std::map<Key, Cached> cache_;
  std::map<Key, std::shared_ptr<Flight>> flights_;  // shared by those who wait
};

}  // namespace atl::control
