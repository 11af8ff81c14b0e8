#include "control/services.h"

#include "control/previews.h"
#include "control/public_names.h"
#include "control/sandboxes_fixture.h"
#include "control/service_document.h"

namespace atl::control {
namespace {

Result<std::vector<Service>> parse(std::string_view text) {
  const auto json = Json::parse(text);
  CHECK(json.has_value());
  return parse_services(*json);
}

TEST(ServiceDocument, IsTheSameAfterThereAndBack) {
  const auto services = parse(R"([
    {"id": "web", "port": 3000, "display_name": "Web", "ingress": {"public": true, "routes": [
      {"id": "a", "path_prefix": "/a", "methods": ["get"], "rewrite_prefix": "/",
       "auth": {"mode": "bearer", "bearer_token_sha256":
                "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"},
       "cors": {"allowed_origins": ["*"], "max_age_seconds": 5},
       "rate_limit": {"rps": 1, "burst": 2}, "timeout_seconds": 9, "resume": true}]},
     "health_check": {"path": "/healthy"}},
    {"id": "job", "port": 1, "ingress": {"public": false},
     "runtime": {"type": "cmd", "command": ["a", "b"], "cwd": "/x", "env_vars": {"A": "1"}}},
    {"id": "fn", "ingress": {"public": true}, "runtime": {"type": "function", "function":
     {"runtime": "javascript", "max_concurrency": 3, "source": {"type": "inline", "code": "x"}}}}
  ])");
  ASSERT_TRUE(services) << services.error().message;
  const auto again = parse_services(services_json(*services));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *services);
  EXPECT_EQ(services->at(0).routes[0].methods[0], "GET");
  EXPECT_EQ(services->at(2).port, kFunctionPort);
  // Without routes, everything is one.
  ASSERT_EQ(services->at(2).routes.size(), 1U);
  EXPECT_EQ(services->at(2).routes[0].path_prefix, "/");
  EXPECT_EQ(publish_blockers(services->at(0)), std::vector<std::string>{"missing_runtime"});
  EXPECT_EQ(publish_blockers(services->at(1)), std::vector<std::string>{"not_public"});
  EXPECT_TRUE(publish_blockers(services->at(2)).empty());
}

TEST(ServiceDocument, AManualServiceIsNoReasonToResume) {
  const auto asked = Json::parse(R"({"services": [{"id": "a", "port": 1,
    "runtime": {"type": "manual"}, "ingress": {"routes": [{"id": "r", "resume": true}]}}]})");
  const auto refused = parse_services(*Fields::of(*asked, "", {"services"}));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("resume"), std::string::npos) << refused.error().message;
  const auto without = parse(
      R"([{"id": "a", "port": 1, "runtime": {"type": "manual"}, "ingress": {"public": true}}])");
  ASSERT_TRUE(without);
  EXPECT_FALSE(without->at(0).routes.at(0).resume);
}

TEST(ServiceDocument, RefusesByField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([{"id": "A", "port": 1, "ingress": {}}])", "services.id"},
      {R"([{"id": "a", "ingress": {}}])", "services.port"},
      {R"([{"id": "a", "port": 1, "ingress": {}}, {"id": "a", "port": 2, "ingress": {}}])",
       "twice"},
      {R"([{"id": "a", "port": 1, "ingress": {}}, {"id": "b", "port": 1, "ingress": {}}])",
       "another service"},
      {R"([{"id": "a", "port": 1, "ingress": {"routes": [{"id": "r", "path_prefix": "/../x"}]}}])",
       "path_prefix"},
      {R"([{"id": "a", "port": 1, "unknown": 1, "ingress": {}}])", "unknown"},
  };
  for (const auto& [text, part] : cases) {
    const auto parsed = parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().message.find(part), std::string::npos) << parsed.error().message;
  }
}

TEST(PublicNames, TellServicesFromTheServer) {
  auto names = *make_public_names("apps.test", "", "127.0.0.1", 7070, false);
  EXPECT_EQ(names.origin("rs-x", 80), "http://rs-x--p80.apps.test:7070");
  const auto target = [&](std::string_view host, std::string_view path = "/") {
    const auto found = find_target(names, host, path);
    return !found                      ? std::string{"server"}
           : found->sandbox_id.empty() ? std::string{"nothing"}
                                       : concat(found->sandbox_id, ":", found->port, found->prefix);
  };
  EXPECT_EQ(target("rs-x--p80.apps.test"), "rs-x:80");
  EXPECT_EQ(target("RS-X--P80.Apps.Test.:7070"), "rs-x:80");
  EXPECT_EQ(target("80-rs-x.apps.test"), "rs-x:80");
  EXPECT_EQ(target("rs-x--p080.apps.test"), "nothing");
  EXPECT_EQ(target("rs-x--p0.apps.test"), "nothing");
  EXPECT_EQ(target("a.rs-x--p80.apps.test"), "nothing");
  EXPECT_EQ(target("www.apps.test"), "nothing");
  EXPECT_EQ(target("apps.test"), "server");
  EXPECT_EQ(target("evilapps.test"), "server");
  EXPECT_EQ(target("127.0.0.1:7070", "/s/rs-x/80/a"), "server");
  names = *make_public_names("", "", "127.0.0.1", 7070, false);
  EXPECT_EQ(target("127.0.0.1:7070", "/s/rs-x/80/a"), "rs-x:80/s/rs-x/80");
  EXPECT_EQ(target("127.0.0.1:7070", "/s/rs-x/80"), "rs-x:80/s/rs-x/80");
  EXPECT_EQ(target("127.0.0.1:7070", "/s/rs-x/"), "nothing");
  EXPECT_EQ(target("127.0.0.1:7070", "/s/rs_x/80/"), "nothing");
  EXPECT_EQ(target("127.0.0.1:7070", "/api/v1/sandboxes"), "server");
  const auto behind = *make_public_names("", "https://atoll.example/", "127.0.0.1", 7070, false);
  EXPECT_EQ(behind.origin("rs-x", 80), "https://atoll.example/s/rs-x/80");
  EXPECT_FALSE(make_public_names("a b", "", "127.0.0.1", 1, false));
  EXPECT_FALSE(make_public_names("", "ftp://x", "127.0.0.1", 1, false));
}

class ServicesTest : public SandboxesTest {};

TEST_F(ServicesTest, ArePartOfTheClaimAndOfItsForks) {
  Services services{StoreAccess{*store_, nullptr}, *sandboxes_, simulation_.clock};
  const auto parsed = *parse(R"([{"id": "web", "port": 80, "ingress": {"public": true}}])");
  ClaimRequest request;
  request.documents.push_back(Services::document(parsed));
  const auto sandbox = claim(std::move(request));
  ASSERT_TRUE(sandbox);
  ASSERT_NE(services.find(sandbox->id), nullptr);
  EXPECT_EQ(services.find(sandbox->id)->services, parsed);
  EXPECT_EQ(sandboxes_->inherited_documents(sandbox->id).size(), 1U);
  EXPECT_FALSE(services.get("other", sandbox->id));
  // Another process reads the same.
  Services later{StoreAccess{*store_, nullptr}, *sandboxes_, simulation_.clock};
  ASSERT_TRUE(simulation_.run(later.start()));
  EXPECT_EQ(later.find(sandbox->id)->services, parsed);
  EXPECT_TRUE(simulation_.run(later.put(kTeam, sandbox->id, {})));
  EXPECT_TRUE(later.find(sandbox->id)->services.empty());
  EXPECT_TRUE(simulation_.run(sandboxes_->remove(kTeam, sandbox->id)));
  EXPECT_EQ(services.find(sandbox->id), nullptr);
  EXPECT_TRUE(store_->list_records("services")->empty());
}

TEST_F(ServicesTest, PreviewsAreGoodOnceForAWhileAndForTheirCreator) {
  Previews previews{StoreAccess{*store_, nullptr}, *sandboxes_, simulation_.clock};
  const std::string id = claim()->id;
  const auto made = simulation_.run(previews.create(kTeam, id, "me", {.port = 80}));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_FALSE(simulation_.run(previews.open(id, 81, made->link_secret)));
  EXPECT_FALSE(simulation_.run(previews.open(id, 80, made->preview.id + ".wrong")));
  EXPECT_FALSE(previews.find(id, 80, made->link_secret));
  const auto opened = simulation_.run(previews.open(id, 80, made->link_secret));
  ASSERT_TRUE(opened);
  EXPECT_FALSE(simulation_.run(previews.open(id, 80, made->link_secret)));
  EXPECT_TRUE(previews.find(id, 80, opened->cookie));
  EXPECT_TRUE(previews.find(id, 80, made->token));
  EXPECT_FALSE(previews.find(id, 81, opened->cookie));
  EXPECT_FALSE(previews.find("rs-other", 80, opened->cookie));
  EXPECT_FALSE(previews.find(id, 80, ""));
  EXPECT_FALSE(simulation_.run(previews.renew(kTeam, id, "you", made->preview.id, 60)));
  ASSERT_TRUE(simulation_.run(previews.renew(kTeam, id, "me", made->preview.id, 60)));
  Previews later{StoreAccess{*store_, nullptr}, *sandboxes_, simulation_.clock};
  ASSERT_TRUE(simulation_.run(later.start()));
  EXPECT_TRUE(later.find(id, 80, opened->cookie));
  simulation_.clock.advance_ms(61'000);
  EXPECT_FALSE(previews.find(id, 80, opened->cookie));
}

}  // namespace
}  // namespace atl::control
