// Credentials that others hand out, from real servers on loopback and real programs.
#include "control/credential_fetcher.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/strings.h"
#include "control/credential_resolver.h"
#include "control/fixture.h"
#include "http/test_server.h"

namespace atl::control {
namespace {

constexpr const char* kTeam = store::kDefaultTeam;
constexpr std::string_view kSecret = "very-secret-value-1";

// Hands out tokens, and remembers what it was asked.
struct TokenServer {
  std::vector<std::string> bodies;
  std::vector<std::string> authorizations;
  int status = 200;
  std::string answer;

  Task<> handle(http::Exchange& exchange) {
    CO_TRY(std::string body, co_await http::read_all(exchange.body(), 65536));
    bodies.push_back(std::move(body));
    authorizations.emplace_back(exchange.request().headers.get("Authorization"));
    const std::string text =
        answer.empty()
            ? concat(R"({"access_token":"token-)", bodies.size(),
                     R"(","token_type":"Bearer","expires_in":3600,"refresh_token":"next-)",
                     bodies.size(), R"("})")
            : answer;
    co_return co_await exchange.respond({.status = status, .headers = {}, .body = text});
  }
};

class CredentialFetcherTest : public testing::Test {
 protected:
  void SetUp() override {
    store_ = *store::open_sqlite_store(directory_.path() + "/atoll.db");
    sources_ = std::make_unique<CredentialSources>(StoreAccess{*store_, nullptr}, keyring_, clock_);
    make_fetcher("127.0.0.1");
  }
  void make_fetcher(std::string_view allowed) {
    fetcher_ = std::make_unique<CredentialFetcher>(
        CredentialFetcher::Parts{.reactor = http_.reactor(),
                                 .resolvers = resolvers_,
                                 .tls = *tls_,
                                 .sources = *sources_,
                                 .endpoints = *s3::EndpointPolicy::parse(allowed),
                                 .command_directory = directory_.path() + "/commands"});
  }
  std::string url(std::string_view path) const {
    return concat("http://127.0.0.1:", http_.url().port, path);
  }
  Task<> make(std::string name, std::string kind, std::string spec, bool rotate = false) {
    CO_TRY(const auto source_kind, source_kind_of(kind));
    CO_TRY(const Json json, Json::parse(spec));
    CO_TRY(auto read, read_credential_spec(json, source_kind));
    auto task = rotate ? sources_->rotate(kTeam, name, std::move(read))
                       : sources_->create(kTeam, name, std::move(read));
    CO_TRY_DO(co_await std::move(task));
    co_return ok();
  }
  Task<std::string> value(std::string name, std::string key, std::int64_t cache_seconds = 300) {
    CO_TRY(auto opened, sources_->open(kTeam, name));
    CO_TRY(const auto values, co_await fetcher_->values(std::move(opened), cache_seconds));
    const auto found = values->find(key);
    co_return found == values->end() ? std::string{"none"} : std::string{found->second.reveal()};
  }
  std::string oauth(std::string_view part, std::string_view more) const {
    return concat(R"({")", part, R"(":{"tokenUrl":")", url("/token?a=b"), R"(","clientId":"c d")",
                  more, "}}");
  }
  void program(const std::string& name, const std::string& text) {
    const std::string place = directory_.path() + "/commands";
    std::filesystem::create_directories(place);
    ::chmod(place.c_str(), 0755);
    std::ofstream{place + "/" + name} << "#!/bin/sh\n" << text << "\n";
    ::chmod((place + "/" + name).c_str(), 0755);
  }

  TemporaryDirectory directory_;
  SystemWallClock clock_;
  TokenServer server_;
  http::TestServer http_{[this](http::Exchange& exchange) { return server_.handle(exchange); }};
  io::OffloadPool resolvers_{"resolve", 1, 16};
  std::unique_ptr<tls::Context> tls_ = *tls::Context::client({});
  secrets::Keyring keyring_ = *secrets::Keyring::parse(secrets::Keyring::make_key_line());
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<CredentialSources> sources_;
  std::unique_ptr<CredentialFetcher> fetcher_;

  Task<> check_client_credentials() {
    CO_TRY_DO(co_await make(
        "api", "oauth2_client_credentials",
        oauth("oauth2ClientCredentials", R"(,"clientSecret":"s:1","scope":"a b","audience":"x")")));
    CO_TRY(const auto first, co_await value("api", "access_token"));
    EXPECT_EQ(first, "token-1");
    EXPECT_EQ(server_.bodies[0], "grant_type=client_credentials&scope=a%20b&audience=x");
    EXPECT_EQ(server_.authorizations[0], concat("Basic ", base64_encode("c%20d:s%3a1")));
    CO_TRY(const auto again, co_await value("api", "access_token", 0));
    EXPECT_EQ(again, "token-1");  // a token is good as long as its server says
    CO_TRY_DO(co_await make(
        "api", "oauth2_client_credentials",
        oauth("oauth2ClientCredentials", R"(,"clientSecret":"s2","authStyle":"body")"), true));
    CO_TRY(const auto rotated, co_await value("api", "access_token"));
    EXPECT_EQ(rotated, "token-2");
    EXPECT_EQ(server_.bodies[1], "grant_type=client_credentials&client_id=c%20d&client_secret=s2");
    co_return ok();
  }

  Task<> check_refresh_tokens() {
    CO_TRY_DO(co_await make("user", "oauth2_refresh_token",
                            oauth("oauth2RefreshToken", R"(,"refreshToken":"first")")));
    CO_TRY(const auto token, co_await value("user", "access_token"));
    EXPECT_EQ(token, "token-1");
    EXPECT_EQ(server_.bodies[0], "grant_type=refresh_token&refresh_token=first&client_id=c%20d");
    // The one that took its place is stored, under the same version.
    CredentialSources again{StoreAccess{*store_, nullptr}, keyring_, clock_};
    CO_TRY_DO(co_await again.start());
    CO_TRY(const auto opened, again.open(kTeam, "user"));
    EXPECT_EQ(opened.values.at("refreshToken").reveal(), "next-1");
    EXPECT_EQ(opened.source.version, 1);
    co_return ok();
  }

  Task<> one_of_many(std::vector<std::string>& values) {
    CO_TRY(auto token, co_await value("api", "access_token"));
    values.push_back(std::move(token));
    co_return ok();
  }
  Task<> check_single_flight() {
    CO_TRY_DO(co_await make("api", "oauth2_client_credentials",
                            oauth("oauth2ClientCredentials", R"(,"clientSecret":"s")")));
    std::vector<std::string> values;
    Scope many{co_await current_context()};
    for (int i = 0; i < 20; ++i) {
      many.spawn("ask", one_of_many(values));
    }
    (void)co_await many.join();
    EXPECT_EQ(values.size(), 20U);
    EXPECT_EQ(server_.bodies.size(), 1U);
    co_return ok();
  }

  Task<> check_failures() {
    CO_TRY_DO(co_await make("api", "http",
                            concat(R"({"http":{"url":")", url("/x?key=very-secret-value-1"),
                                   R"(","headers":{"X-Vault":"very-secret-value-1"}}})")));
    const std::pair<int, std::string> answers[] = {
        {500, concat(R"({"error":")", kSecret, "\"}")},
        {200, std::string{kSecret}},
        {200, concat(R"({"values":{"a":1,"b":")", kSecret, "\"}}")},
        {302, std::string{kSecret}},
    };
    for (const auto& [status, answer] : answers) {
      server_.status = status;
      server_.answer = answer;
      make_fetcher("127.0.0.1");  // it remembers failures for a moment
      const auto got = co_await value("api", "token");
      EXPECT_FALSE(got) << status;
      if (!got) {
        EXPECT_EQ(got.error().message.find(kSecret), std::string::npos) << got.error().message;
      }
    }
    const std::size_t asked = server_.bodies.size();
    const auto again = co_await value("api", "token");
    EXPECT_FALSE(again);
    EXPECT_EQ(server_.bodies.size(), asked);  // not asked again at once
    make_fetcher("");
    const auto refused = co_await value("api", "token");
    EXPECT_FALSE(refused);
    if (!refused) {
      EXPECT_NE(refused.error().message.find("--allow-credential-endpoint"), std::string::npos);
    }
    EXPECT_EQ(server_.bodies.size(), asked);
    co_return ok();
  }

  Task<> check_url() {
    server_.answer = R"({"values":{"token":"one"}})";
    CO_TRY_DO(co_await make("api", "http", concat(R"({"http":{"url":")", url("/"), R"("}})")));
    CO_TRY(const auto first, co_await value("api", "token"));
    EXPECT_EQ(first, "one");
    server_.answer = R"({"values":{"token":"two"},"expires_in":0})";
    CO_TRY(const auto cached, co_await value("api", "token"));
    EXPECT_EQ(cached, "one");
    CO_TRY(const auto fresh, co_await value("api", "token", 0));
    EXPECT_EQ(fresh, "two");
    server_.answer = R"({"values":{"token":"three"}})";
    CO_TRY(const auto expired, co_await value("api", "token"));
    EXPECT_EQ(expired, "three");
    co_return ok();
  }

  Task<> check_commands() {
    program(
        "good",
        R"(printf '{"values":{"token":"%s-%s-%s"}}' "$ATOLL_TEAM" "$ATOLL_CREDENTIAL" "$HOME$SECRET")");
    program("bad", "echo very-secret-value-1; echo very-secret-value-1 >&2; exit 3");
    program("long", "head -c 100000 /dev/zero");
    for (const auto* name : {"good", "bad", "long", "none"}) {
      CO_TRY_DO(co_await make(name, "command", concat(R"({"command":{"name":")", name, R"("}})")));
    }
    ::setenv("SECRET", "leaks", 1);
    CO_TRY(const auto good, co_await value("good", "token"));
    EXPECT_EQ(good, "default-good-");
    for (const auto* name : {"bad", "long", "none"}) {
      const auto got = co_await value(name, "token");
      EXPECT_FALSE(got) << name;
      if (!got) {
        EXPECT_EQ(got.error().message.find(kSecret), std::string::npos) << got.error().message;
      }
    }
    ::chmod((directory_.path() + "/commands").c_str(), 0777);
    make_fetcher("");
    const auto writable = co_await value("good", "token");
    EXPECT_FALSE(writable);
    co_return ok();
  }

  Task<> check_resolver() {
    CO_TRY_DO(co_await make("api", "oauth2_client_credentials",
                            oauth("oauth2ClientCredentials", R"(,"clientSecret":"s")")));
    CredentialResolver resolver{*sources_, *fetcher_};
    auto rules = std::make_shared<egress::SandboxRules>();
    rules->team_id = kTeam;
    egress::Binding binding{.ref = "r", .source_ref = "api"};
    binding.projection.headers.push_back({"Authorization", "Bearer {{ .access_token }}"});
    rules->bindings.push_back(binding);
    CO_TRY(const auto material, co_await resolver.resolve(rules, "r"));
    EXPECT_EQ(material->headers[0].value, "Bearer token-1");
    EXPECT_EQ(material->source_version, "api@1");
    const auto unbound = co_await resolver.resolve(rules, "other");
    EXPECT_FALSE(unbound);
    auto theirs = std::make_shared<egress::SandboxRules>(*rules);
    theirs->team_id = "other";
    const auto foreign = co_await resolver.resolve(theirs, "r");
    EXPECT_FALSE(foreign);
    co_return ok();
  }

  void check(Task<> task) {
    const auto result = http_.run(std::move(task));
    EXPECT_TRUE(result) << result.error().message;
  }
};

TEST_F(CredentialFetcherTest, TokensAreKeptUntilTheyEndOrTheSourceChanges) {
  check(check_client_credentials());
}

TEST_F(CredentialFetcherTest, ARefreshTokenThatIsReplacedIsStored) {
  check(check_refresh_tokens());
}

TEST_F(CredentialFetcherTest, ManyWhoAskAreServedByOneFetch) {
  check(check_single_flight());
}

TEST_F(CredentialFetcherTest, FailuresSayNoSecretAndAreNotRepeatedAtOnce) {
  check(check_failures());
}

TEST_F(CredentialFetcherTest, AUrlAnswersValuesForATime) {
  check(check_url());
}

TEST_F(CredentialFetcherTest, ProgramsOfTheOperatorPrintValues) {
  check(check_commands());
}

TEST_F(CredentialFetcherTest, ABindingComesToItsValues) {
  check(check_resolver());
}

}  // namespace
}  // namespace atl::control
