// Credentials: sealed, versioned, rendered, refused when they cannot be had.
#include "control/credential_sources.h"

#include "base/strings.h"
#include "control/authorities.h"
#include "control/credential_command.h"
#include "control/credential_fetcher.h"
#include "control/credential_resolver.h"
#include "control/sandboxes_fixture.h"

namespace atl::control {
namespace {

constexpr std::string_view kSecret = "very-secret-value-1";

CredentialSpec headers_spec(std::string_view token) {
  CredentialSpec spec{.kind = SourceKind::kStaticHeaders, .values = {}};
  spec.values.emplace("token", secrets::Plaintext{token});
  return spec;
}

Result<CredentialSpec> read_spec(std::string_view text, SourceKind kind) {
  const auto json = Json::parse(text);
  CHECK(json);
  return read_credential_spec(*json, kind);
}

class CredentialsTest : public SandboxesTest {
 protected:
  void SetUp() override {
    SandboxesTest::SetUp();
    begin();
  }
  void TearDown() override {
    sources_.reset();
    SandboxesTest::TearDown();
  }
  void begin() {
    sources_ = std::make_unique<CredentialSources>(StoreAccess{*store_, nullptr}, keyring_,
                                                   simulation_.clock);
    ASSERT_TRUE(simulation_.run(sources_->start()));
  }
  void restart() {
    sources_.reset();
    close();
    open();
    begin();
  }

  secrets::Keyring keyring_ = *secrets::Keyring::parse(secrets::Keyring::make_key_line());
  std::unique_ptr<CredentialSources> sources_;
};

TEST_F(CredentialsTest, AreSealedVersionedAndDurable) {
  ASSERT_TRUE(simulation_.run(sources_->create(kTeam, "gh", headers_spec(kSecret))));
  const auto twice = simulation_.run(sources_->create(kTeam, "gh", headers_spec("x")));
  EXPECT_EQ(twice.error().code, Code::kAlreadyExists);
  EXPECT_TRUE(simulation_.run(sources_->create("other", "gh", headers_spec("theirs"))));
  for (const auto& record : *store_->list_records("credential-source")) {
    EXPECT_EQ(record.body.find(kSecret), std::string::npos);
  }
  restart();
  EXPECT_EQ(sources_->open(kTeam, "gh")->values.at("token").reveal(), kSecret);
  EXPECT_EQ(sources_->open("other", "gh")->values.at("token").reveal(), "theirs");
  const auto rotated = simulation_.run(sources_->rotate(kTeam, "gh", headers_spec("next")));
  ASSERT_TRUE(rotated);
  EXPECT_EQ(rotated->version, 2);
  EXPECT_EQ(sources_->open(kTeam, "gh")->values.at("token").reveal(), "next");
  CredentialSpec other{.kind = SourceKind::kStaticUsernamePassword, .values = {}};
  EXPECT_EQ(simulation_.run(sources_->rotate(kTeam, "gh", std::move(other))).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(sources_->list(kTeam).size(), 1U);
  EXPECT_EQ(sources_->get("third", "gh").error().code, Code::kNotFound);
}

TEST_F(CredentialsTest, StayWhileTheyAreBound) {
  bool bound = true;
  sources_->on_bound([&](std::string_view, std::string_view) { return bound; });
  ASSERT_TRUE(simulation_.run(sources_->create(kTeam, "gh", headers_spec(kSecret))));
  EXPECT_EQ(simulation_.run(sources_->remove(kTeam, "gh")).error().code, Code::kFailedPrecondition);
  bound = false;
  EXPECT_TRUE(simulation_.run(sources_->remove(kTeam, "gh")));
  EXPECT_EQ(simulation_.run(sources_->remove(kTeam, "gh")).error().code, Code::kNotFound);
  EXPECT_EQ(sources_->open(kTeam, "gh").error().code, Code::kFailedPrecondition);
  EXPECT_TRUE(store_->list_records("credential-source")->empty());
}

TEST_F(CredentialsTest, WithoutTheirKeyAreUnreadableAndSealedAnewWithTheNewest) {
  ASSERT_TRUE(simulation_.run(sources_->create(kTeam, "gh", headers_spec(kSecret))));
  const std::string old_line = "1" + std::string(63, '2');
  keyring_ = *secrets::Keyring::parse(old_line);
  restart();
  EXPECT_FALSE(sources_->get(kTeam, "gh")->readable);
  EXPECT_EQ(sources_->open(kTeam, "gh").error().reason, "credential_unreadable");
  ASSERT_TRUE(simulation_.run(sources_->rotate(kTeam, "gh", headers_spec("again"))));
  const std::string before = store_->list_records("credential-source")->front().body;
  keyring_ = *secrets::Keyring::parse(concat(secrets::Keyring::make_key_line(), "\n", old_line));
  restart();
  EXPECT_NE(store_->list_records("credential-source")->front().body, before);
  EXPECT_EQ(sources_->open(kTeam, "gh")->values.at("token").reveal(), "again");
}

TEST_F(CredentialsTest, ARecordMovedToAnotherNameDoesNotOpen) {
  ASSERT_TRUE(simulation_.run(sources_->create(kTeam, "gh", headers_spec(kSecret))));
  auto record = store_->list_records("credential-source")->front();
  record.id = concat(kTeam, "/mine");
  ASSERT_TRUE(store_->put_record(record, 0));
  restart();
  EXPECT_FALSE(sources_->open(kTeam, "mine"));
  EXPECT_TRUE(sources_->open(kTeam, "gh"));
}

TEST_F(CredentialsTest, SpecsAreReadStrictly) {
  EXPECT_TRUE(read_spec(R"({"staticHeaders":{"values":{"a":"b"}}})", SourceKind::kStaticHeaders));
  EXPECT_TRUE(read_spec(R"({"oauth2RefreshToken":{"tokenUrl":"https://a.example/token?x=1",
      "clientId":"c","refreshToken":"r"}})",
                        SourceKind::kOauth2RefreshToken));
  const std::pair<const char*, SourceKind> cases[] = {
      {R"({})", SourceKind::kStaticHeaders},
      {R"({"staticHeaders":{"value":{}}})", SourceKind::kStaticHeaders},
      {R"({"staticHeaders":{"values":{}},"http":{"url":"https://x"}})", SourceKind::kStaticHeaders},
      {R"({"staticUsernamePassword":{"username":"u"}})", SourceKind::kStaticUsernamePassword},
      {R"({"staticSSHPrivateKey":{"privateKeyPem":"very-secret-value-1"}})",
       SourceKind::kStaticSshPrivateKey},
      {R"({"http":{"url":"ftp://very-secret-value-1"}})", SourceKind::kHttp},
      {R"({"http":{"url":"https://u:very-secret-value-1@h/"}})", SourceKind::kHttp},
      {R"({"command":{"name":"../sh"}})", SourceKind::kCommand},
  };
  for (const auto& [text, kind] : cases) {
    const auto spec = read_spec(text, kind);
    ASSERT_FALSE(spec) << text;
    EXPECT_EQ(spec.error().code, Code::kInvalidArgument);
    EXPECT_EQ(spec.error().message.find(kSecret), std::string::npos) << spec.error().message;
  }
}

TEST(ValueTemplates, KnowKeysAndNothingElse) {
  SecretValues values;
  values.emplace("token", secrets::Plaintext{"T"});
  values.emplace("a-b", secrets::Plaintext{"{{ .token }}"});
  const auto render = [&](std::string_view text) -> Result<std::string> {
    TRY(const auto parsed, ValueTemplate::parse(text));
    return parsed.render(values);
  };
  EXPECT_EQ(*render("Bearer {{ .token }}"), "Bearer T");
  EXPECT_EQ(*render("{{.token}}{{ .token }}"), "TT");
  EXPECT_EQ(*render("plain } }} text"), "plain } }} text");
  EXPECT_EQ(*render("{{ .a-b }}"), "{{ .token }}");  // what was put in is not looked at again
  EXPECT_EQ(render("{{ .other }}").error().reason, "credential_key");
  for (const auto* text : {"{{ token }}", "{{ .token | b64 }}", "{{ .a.b }}", "{{ .token", "{{}}",
                           "{{ . }}", "{{ if .token }}x{{ end }}"}) {
    EXPECT_FALSE(render(text)) << text;
  }
}

TEST(Projections, FailClosed) {
  egress::Binding binding{.ref = "r", .source_ref = "s"};
  binding.projection.headers.push_back({"Authorization", "Bearer {{ .token }}"});
  SecretValues values;
  EXPECT_FALSE(project(binding, values, "s@1"));
  values.emplace("token", secrets::Plaintext{"T"});
  const auto material = project(binding, values, "s@1");
  ASSERT_TRUE(material);
  EXPECT_EQ((*material)->headers[0].value, "Bearer T");
  EXPECT_EQ((*material)->source_version, "s@1");
  values.insert_or_assign("token", secrets::Plaintext{"T\r\nX: very-secret-value-1"});
  const auto split = project(binding, values, "s@1");
  ASSERT_FALSE(split);
  EXPECT_EQ(split.error().message.find(kSecret), std::string::npos);
  binding.projection.kind = egress::ProjectionKind::kUsernamePassword;
  EXPECT_EQ(project(binding, values, "s@1").error().reason, "credential_key");
}

TEST_F(CredentialsTest, EverySandboxHasAnAuthorityOfItsOwn) {
  Authorities authorities{StoreAccess{*store_, nullptr}, keyring_, simulation_.clock, *sandboxes_};
  ASSERT_TRUE(simulation_.run(authorities.start()));
  const auto one = claim();
  const auto two = claim();
  ASSERT_TRUE(one && two);
  const auto first = simulation_.run(authorities.authority(one->id));
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(simulation_.run(authorities.authority(one->id))->get(), first->get());
  EXPECT_NE((*simulation_.run(authorities.authority(two->id)))->certificate_pem,
            (*first)->certificate_pem);
  EXPECT_EQ(simulation_.run(authorities.authority("rs-none")).error().code, Code::kNotFound);
  for (const auto& record : *store_->list_records("authority")) {
    EXPECT_EQ(record.body.find("PRIVATE KEY"), std::string::npos);
  }
  Authorities again{StoreAccess{*store_, nullptr}, keyring_, simulation_.clock, *sandboxes_};
  ASSERT_TRUE(simulation_.run(again.start()));
  EXPECT_EQ((*simulation_.run(again.authority(one->id)))->key_pem, (*first)->key_pem);
  // Well before it ends there is a new one.
  simulation_.clock.advance_ms(50LL * 24 * 3600 * 1000);
  std::vector<std::string> told;
  again.on_issued([&](const std::string& id) { told.push_back(id); });
  EXPECT_NE((*simulation_.run(again.authority(one->id)))->key_pem, (*first)->key_pem);
  EXPECT_EQ(told, std::vector{one->id});
  ASSERT_TRUE(simulation_.run(sandboxes_->remove(kTeam, one->id)));
  EXPECT_EQ(store_->list_records("authority")->size(), 1U);
}

TEST_F(CredentialsTest, BindingsHaveValuesOfTheirOwnAndSourcesByNameLater) {
  SecretValues values;
  values.emplace("text0", secrets::Plaintext{kSecret});
  const auto sealed = sources_->seal_own(kTeam, values);
  ASSERT_TRUE(sealed);
  EXPECT_EQ(sealed->find(kSecret), std::string::npos);
  egress::Binding binding{.ref = "r", .sealed = *sealed, .late_sources = {"gh"}};
  EXPECT_TRUE(sources_->check_binding(kTeam, binding)) << "a source may come later";
  EXPECT_FALSE(sources_->check_binding("other", binding)) << "what is sealed is one team's";
  EXPECT_EQ(sources_->open_own(kTeam, binding).error().code, Code::kFailedPrecondition);
  ASSERT_TRUE(simulation_.run(sources_->create(kTeam, "gh", headers_spec("token-1"))));
  const auto opened = sources_->open_own(kTeam, binding);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->values.at("text0").reveal(), kSecret);
  EXPECT_EQ(opened->values.at("source0_token").reveal(), "token-1");
}

TEST_F(CredentialsTest, OwnValuesAreSealedAgainWithTheNewestKey) {
  const std::string old_line = secrets::Keyring::make_key_line();
  const auto with_old = *secrets::Keyring::parse(old_line);
  const auto with_both =
      *secrets::Keyring::parse(concat(secrets::Keyring::make_key_line(), "\n", old_line));
  const StoreAccess store{*store_, nullptr};
  SecretValues values;
  values.emplace("a", secrets::Plaintext{kSecret});
  egress::Binding binding{.ref = "r", .sealed = {}};
  binding.sealed = *CredentialSources(store, with_old, simulation_.clock).seal_own(kTeam, values);
  const CredentialSources sources{store, with_both, simulation_.clock};
  const auto renewed = sources.renewed(kTeam, binding);
  ASSERT_TRUE(renewed);
  binding.sealed = *renewed;
  EXPECT_EQ(sources.renewed(kTeam, binding), std::nullopt);
  EXPECT_EQ(sources.open_own(kTeam, binding)->values.at("a").reveal(), kSecret);
}

TEST_F(CredentialsTest, LabelsStayUntilOthersAreGiven) {
  CredentialSpec spec = headers_spec("a");
  spec.labels = store::StringMap{{"owner", "me"}};
  ASSERT_TRUE(simulation_.run(sources_->create(kTeam, "gh", std::move(spec))));
  ASSERT_TRUE(simulation_.run(sources_->rotate(kTeam, "gh", headers_spec("b"))));
  restart();
  EXPECT_EQ(sources_->get(kTeam, "gh")->labels.at("owner"), "me");
}

}  // namespace
}  // namespace atl::control
