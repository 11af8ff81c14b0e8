#include "control/credential_fetcher.h"

#include <algorithm>

#include "base/json_fields.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/credential_command.h"
#include "http/client.h"

namespace atl::control {
namespace {

constexpr Duration kFetchTimeout = std::chrono::seconds{10};
constexpr Duration kFailureMemory = std::chrono::seconds{2};
constexpr std::int64_t kMaxLifeSeconds = 24LL * 3600;
constexpr std::int64_t kUsualTokenSeconds = 300;  // when the server does not say
constexpr std::size_t kMaxAnswerBytes = std::size_t{64} * 1024;

std::unexpected<Error> unusable(std::string_view what) {
  return fail(Code::kUnavailable, std::string{what}, "credential_fetch_failed");
}

std::string text_of(const SecretValues& values, std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? std::string{} : std::string{found->second.reveal()};
}

std::string percent_encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += concat("%", hex(std::string_view{&c, 1}));
    }
  }
  return out;
}

void add_field(std::string& form, std::string_view name, std::string_view value) {
  if (!value.empty()) {
    form += concat(form.empty() ? "" : "&", name, "=", percent_encode(value));
  }
}

// A token is used until a minute before its end, or the last tenth of a short life.
std::int64_t usable_seconds(std::int64_t life_seconds) {
  const std::int64_t life = std::clamp<std::int64_t>(life_seconds, 0, kMaxLifeSeconds);
  return life - std::min<std::int64_t>(60, (life + 9) / 10);
}

}  // namespace

bool CredentialFetcher::is_fresh(const Cached& cached, std::int64_t version,
                                 std::int64_t cache_seconds, Instant now) {
  if (cached.version != version || cached.values == nullptr) {
    return false;
  }
  return cached.expires_at ? now < *cached.expires_at
                           : now - cached.fetched_at < std::chrono::seconds{cache_seconds};
}

Task<SharedValues> CredentialFetcher::values(OpenedSource opened, std::int64_t cache_seconds) {
  const CredentialSource source = opened.source;
  const Key key{source.team_id, source.name};
  const auto cached = cache_.find(key);
  if (cached != cache_.end()) {
    const Instant now = parts_.reactor.now();
    if (is_fresh(cached->second, source.version, cache_seconds, now)) {
      co_return cached->second.values;
    }
    if (cached->second.error && cached->second.version == source.version &&
        now - cached->second.fetched_at < kFailureMemory) {
      co_return fail(*cached->second.error);
    }
  }
  const auto flight = flights_.find(key);
  if (flight != flights_.end() && flight->second->version == source.version) {
    const auto waited_for = flight->second;
    CO_TRY_DO(co_await waited_for->landed.wait());
  } else {
    // Whoever asked first may leave; those who wait for the same shall have it.
    CO_TRY_DO(co_await shielded(fly(std::move(opened))));
  }
  const auto now_cached = cache_.find(key);
  if (now_cached == cache_.end() || now_cached->second.version != source.version) {
    co_return unusable("the credential was changed meanwhile");
  }
  if (now_cached->second.values == nullptr) {
    co_return fail(*now_cached->second.error);
  }
  co_return now_cached->second.values;
}

Task<> CredentialFetcher::fly(OpenedSource opened) {
  const CredentialSource source = opened.source;
  const Key key{source.team_id, source.name};
  const auto flight = std::make_shared<Flight>();
  flight->version = source.version;
  flights_.insert_or_assign(key, flight);
  auto fetched = co_await with_deadline(kFetchTimeout, fetch(std::move(opened)));
  if (!fetched) {
    LOG_WARN("a credential could not be fetched", {"team", source.team_id}, {"source", source.name},
             {"error", fetched.error()});
  }
  keep(source, std::move(fetched));
  if (const auto mine = flights_.find(key); mine != flights_.end() && mine->second == flight) {
    flights_.erase(mine);
  }
  flight->landed.set();
  co_return ok();
}

void CredentialFetcher::keep(const CredentialSource& source, Result<Fetched> fetched) {
  const auto current = parts_.sources.get(source.team_id, source.name);
  if (!current || current->version != source.version) {
    return;  // what was fetched belongs to what it was before
  }
  Cached cached{.version = source.version,
                .values = nullptr,
                .fetched_at = parts_.reactor.now(),
                .expires_at = std::nullopt,
                .error = std::nullopt};
  if (fetched) {
    if (fetched->expires_in_seconds) {
      cached.expires_at =
          cached.fetched_at + std::chrono::seconds{usable_seconds(*fetched->expires_in_seconds)};
    }
    cached.values = std::make_shared<const SecretValues>(std::move(fetched->values));
  } else {
    cached.error = std::move(fetched).error();
  }
  cache_.insert_or_assign(Key{source.team_id, source.name}, std::move(cached));
  // Of sources that are gone.
  std::erase_if(cache_, [&](const auto& item) {
    return !parts_.sources.get(item.first.first, item.first.second);
  });
}

Task<CredentialFetcher::Fetched> CredentialFetcher::fetch(OpenedSource opened) {
  switch (opened.source.kind) {
    case SourceKind::kHttp:
      return fetch_url(std::move(opened));
    case SourceKind::kCommand:
      return run_command(std::move(opened));
    default:
      return fetch_token(std::move(opened));
  }
}

Task<std::string> CredentialFetcher::call(std::string url_text, std::string method,
                                          http::Headers headers, std::string body) {
  const auto authority_end = url_text.find_first_of("/?", url_text.find("://") + 3);
  CO_TRY(http::Url url, http::parse_url(url_text.substr(0, authority_end)));
  std::string path = authority_end == std::string::npos ? "/" : url_text.substr(authority_end);
  if (path.starts_with('?')) {
    path.insert(0, "/");
  }
  const std::string host = url.host;
  auto addresses = co_await io::resolve_host(parts_.resolvers, host);
  if (!addresses) {
    co_return unusable(concat("the name ", host, " of the credential's server is not known"));
  }
  const auto address = parts_.endpoints.choose(url, *addresses);
  if (!address) {
    co_return unusable(concat("the credential's server ", host,
                              " is not public and https; the operator can allow it with "
                              "--allow-credential-endpoint"));
  }
  url.address = address->text();
  http::Client client{parts_.reactor, std::move(url), &parts_.tls};
  headers.set("Accept", "application/json");
  auto response =
      co_await client.send(std::move(method), std::move(path), std::move(headers), std::move(body));
  if (!response) {
    co_return unusable(concat("the credential's server ", host, " did not answer"));
  }
  const int status = (*response)->status();
  if (status < 200 || status > 299) {
    co_return unusable(concat("the credential's server ", host, " answered ", status));
  }
  auto text = co_await http::read_all((*response)->body(), kMaxAnswerBytes);
  if (!text) {
    co_return unusable(concat("the answer of the credential's server ", host, " broke off"));
  }
  co_return std::move(text);
}

namespace {

struct FetchedDocument {
  SecretValues values;
  std::optional<std::int64_t> expires_in_seconds;
};

// {"values": {name: text}, "expires_in": seconds}
Result<FetchedDocument> read_fetched(std::string& text) {
  auto json = Json::parse(text);
  secrets::wipe(text);
  if (!json) {
    return unusable("the answer is no JSON");
  }
  FetchedDocument out;
  const Json* const values = json->find("values");
  const auto* const members = values == nullptr ? nullptr : values->as_object();
  bool good = members != nullptr && !members->empty() && members->size() <= kMaxSourceValues;
  for (std::size_t i = 0; good && i < members->size(); ++i) {
    const auto& [name, value] = (*members)[i];
    good = value.as_string() != nullptr;
    if (good) {
      out.values.insert_or_assign(name, secrets::Plaintext{*value.as_string()});
    }
  }
  if (const Json* const life = json->find("expires_in"); life != nullptr) {
    good = good && life->as_integer() != nullptr && *life->as_integer() >= 0;
    out.expires_in_seconds = good ? *life->as_integer() : 0;
  }
  wipe_json(*json);
  if (!good) {
    return unusable(R"(the answer must be {"values": {name: text}, "expires_in": seconds})");
  }
  return out;
}

}  // namespace

Task<CredentialFetcher::Fetched> CredentialFetcher::fetch_url(OpenedSource opened) {
  constexpr std::string_view kPrefix = "header.";
  http::Headers headers;
  for (const auto& [name, value] : opened.values) {
    if (name.starts_with(kPrefix)) {
      headers.set(name.substr(kPrefix.size()), value.reveal());
    }
  }
  CO_TRY(std::string text,
         co_await call(text_of(opened.values, "url"), "GET", std::move(headers), {}));
  CO_TRY(auto document, read_fetched(text));
  co_return Fetched{std::move(document.values), document.expires_in_seconds};
}

Task<CredentialFetcher::Fetched> CredentialFetcher::run_command(OpenedSource opened) {
  if (parts_.command_directory.empty()) {
    co_return unusable("this server runs no programs for credentials (--credential-commands)");
  }
  CredentialCommand command{
      .program = concat(parts_.command_directory, "/", text_of(opened.values, "name")),
      .environment = {concat("ATOLL_TEAM=", opened.source.team_id),
                      concat("ATOLL_CREDENTIAL=", opened.source.name)},
      .max_output_bytes = kMaxAnswerBytes};
  CO_TRY(std::string text, co_await run_credential_command(parts_.reactor, std::move(command)));
  CO_TRY(auto document, read_fetched(text));
  co_return Fetched{std::move(document.values), document.expires_in_seconds};
}

namespace {

// RFC 6749 section 5.1.
struct Token {
  SecretValues values;
  std::int64_t life_seconds = kUsualTokenSeconds;
  std::optional<secrets::Plaintext> refresh_token;
};

Result<Token> read_token(std::string& text) {
  auto json = Json::parse(text);
  secrets::wipe(text);
  if (!json) {
    return unusable("the answer of the token server is no JSON");
  }
  const auto text_at = [&](std::string_view name) {
    const Json* const member = json->find(name);
    return member == nullptr ? nullptr : member->as_string();
  };
  Token token;
  const bool good = text_at("access_token") != nullptr && !text_at("access_token")->empty();
  if (good) {
    token.values.emplace("access_token", secrets::Plaintext{*text_at("access_token")});
    const auto* const type = text_at("token_type");
    token.values.emplace("token_type",
                         secrets::Plaintext{type == nullptr ? "Bearer" : std::string_view{*type}});
  }
  if (const Json* const life = json->find("expires_in");
      life != nullptr && life->as_integer() != nullptr) {
    token.life_seconds = *life->as_integer();
  }
  if (const auto* const next = text_at("refresh_token"); next != nullptr && !next->empty()) {
    token.refresh_token.emplace(*next);
  }
  wipe_json(*json);
  if (!good) {
    return unusable("the answer of the token server has no access_token");
  }
  return token;
}

}  // namespace

Task<CredentialFetcher::Fetched> CredentialFetcher::fetch_token(OpenedSource opened) {
  const bool refresh = opened.source.kind == SourceKind::kOauth2RefreshToken;
  const std::string secret = text_of(opened.values, "clientSecret");
  const std::string client = text_of(opened.values, "clientId");
  const bool basic = !secret.empty() && text_of(opened.values, "authStyle") != "body";
  std::string form;
  add_field(form, "grant_type", refresh ? "refresh_token" : "client_credentials");
  add_field(form, "refresh_token", text_of(opened.values, "refreshToken"));
  add_field(form, "scope", text_of(opened.values, "scope"));
  add_field(form, "audience", text_of(opened.values, "audience"));
  http::Headers headers;
  headers.set("Content-Type", "application/x-www-form-urlencoded");
  if (basic) {
    headers.set("Authorization", concat("Basic ", base64_encode(concat(percent_encode(client), ":",
                                                                       percent_encode(secret)))));
  } else {
    add_field(form, "client_id", client);
    add_field(form, "client_secret", secret);
  }
  CO_TRY(std::string text, co_await call(text_of(opened.values, "tokenUrl"), "POST",
                                         std::move(headers), std::move(form)));
  CO_TRY(Token token, read_token(text));
  if (refresh && token.refresh_token) {
    // The old one may be worthless from now on.
    opened.values.insert_or_assign("refreshToken", std::move(*token.refresh_token));
    CO_TRY_DO(co_await parts_.sources.keep_values(opened.source.team_id, opened.source.name,
                                                  opened.source.version,
                                                  copy_values(opened.values)));
  }
  co_return Fetched{std::move(token.values), token.life_seconds};
}

}  // namespace atl::control
