// The contract and the server have the same routes, with the same permissions; and the contract is
// served as it should be.
#include <set>

#include "service/native/api_fixture.h"
#include "service/native/contract_routes.h"

namespace atl::service::native {
namespace {

const ContractPage& page_at(std::string_view path) {
  for (const ContractPage& page : contract_pages()) {
    if (page.path == path) {
      return page;
    }
  }
  CHECK(false);
}

// "get /api/v1/sandboxes sandbox:read", "get /healthz -"
std::set<std::string> contract_routes() {
  const auto contract = Json::parse(page_at("/openapi.json").content);
  CHECK(contract);
  std::set<std::string> routes;
  for (const auto& [path, item] : *contract->find("paths")->as_object()) {
    for (const auto& [method, operation] : *item.as_object()) {
      if (method == "parameters") {
        continue;
      }
      const Json* permission = operation.find("x-permission");
      const Json* security = operation.find("security");
      const bool open = security != nullptr && security->as_array()->empty();
      EXPECT_EQ(open, permission == nullptr) << method << " " << path;
      routes.insert(
          concat(method, " ", path, " ", permission == nullptr ? "-" : *permission->as_string()));
    }
  }
  return routes;
}

class ContractTest : public NativeApiTest {
 protected:
  Task<> check_pages() {
    for (const ContractPage& page : contract_pages()) {
      const std::string path{page.path};
      CO_TRY(const auto got, co_await call("GET", path, {}, {{"Authorization", "none"}}));
      EXPECT_EQ(got.status, 200) << path;
      EXPECT_EQ(got.body, page.content);
      EXPECT_EQ(got.headers.get("Content-Type"), page.content_type);
      const std::string etag{got.headers.get("ETag")};
      for (const std::string& known : {etag, concat("\"other\", W/", etag), std::string{"*"}}) {
        CO_TRY(const auto again, co_await call("GET", path, {}, {{"If-None-Match", known}}));
        EXPECT_EQ(again.status, 304) << path << " " << known;
        EXPECT_EQ(again.headers.get("ETag"), etag);
        EXPECT_TRUE(again.body.empty());
      }
      CO_TRY(const auto other, co_await call("GET", path, {}, {{"If-None-Match", "\"other\""}}));
      EXPECT_EQ(other.status, 200) << path;
    }
    co_return ok();
  }

  Task<> check_head() {
    for (const auto* path : {"/healthz", "/metadata", "/openapi.json", "/docs", "/llms.txt"}) {
      CO_TRY(const auto full, co_await call("GET", path));
      CO_TRY(const auto head, co_await call("HEAD", path));
      EXPECT_EQ(head.status, 200) << path;
      EXPECT_TRUE(head.body.empty()) << path;
      EXPECT_EQ(head.headers.get("Content-Length"), std::to_string(full.body.size())) << path;
      EXPECT_EQ(head.headers.get("Content-Type"), full.headers.get("Content-Type")) << path;
    }
    CO_TRY(const auto refused, co_await call("HEAD", "/api/v1/sandboxes"));
    EXPECT_EQ(refused.status, 405);
    co_return ok();
  }

  io::OffloadPool archives_{"archive", 1, 10};
  control::Scratch scratch_{directory_.path()};
  control::TemplateJobs jobs_{{.reactor = reactor_,
                               .pool = archives_,
                               .node = node_,
                               .sandboxes = sandboxes_,
                               .snapshots = snapshots_,
                               .scratch = scratch_,
                               .store = access_,
                               .clock = clock_,
                               .build_limits = {},
                               .directory = directory_.path() + "/images"}};
  control::Diffs diffs_{{.reactor = reactor_,
                         .pool = archives_,
                         .node = node_,
                         .sandboxes = sandboxes_,
                         .snapshots = snapshots_,
                         .scratch = scratch_,
                         .limits = {},
                         .directory = directory_.path() + "/exports"}};
  control::SshKeys ssh_keys_{access_, clock_};
  secrets::Keyring keyring_ = *secrets::Keyring::parse(secrets::Keyring::make_key_line());
  io::OffloadPool flow_thread_{"flows", 1, 10};
  std::unique_ptr<store::FlowFile> flow_file_ =
      *store::open_sqlite_flow_file(directory_.path() + "/flows.db");
  control::FlowLog flow_log_{*flow_file_, flow_thread_, clock_, metrics_};
  control::Approvals approvals_{flow_log_, clock_, metrics_, std::chrono::seconds{1}};
  control::Services services_{access_, sandboxes_, clock_};
  control::Previews previews_{access_, sandboxes_, clock_};
  Published published_{services_, previews_, {}};
  control::CredentialSources credentials_{access_, keyring_, clock_};
  control::NetworkPolicies policies_{access_, sandboxes_, clock_, &credentials_};
  NativeApi whole_{sandboxes_,
                   snapshots_,
                   contexts_,
                   identity_,
                   clock_,
                   metrics_,
                   &jobs_,
                   &tree_archives_,
                   &volumes_,
                   &diffs_,
                   {.flows = &flow_log_, .approvals = &approvals_, .rules = nullptr},
                   &published_,
                   &ssh_keys_,
                   {.policies = &policies_, .credentials = &credentials_}};
};

TEST_F(ContractTest, HasTheRoutesOfTheServerAndNoOthers) {
  std::set<std::string> served;
  for (const auto& route : whole_.routes()) {
    served.insert(concat(to_lower(route.method), " ", route.pattern, " ",
                         route.permission ? control::permission_name(*route.permission) : "-"));
  }
  const std::set<std::string> written = contract_routes();
  for (const auto& route : served) {
    EXPECT_TRUE(written.contains(route)) << "not in api/openapi.yaml: " << route;
  }
  for (const auto& route : written) {
    EXPECT_TRUE(served.contains(route)) << "in api/openapi.yaml but not served: " << route;
  }
}

TEST_F(ContractTest, PagesNeedNoKeyAndAreNotSentTwice) {
  run(check_pages());
}

TEST_F(ContractTest, PublicRoutesAnswerHeadWithoutABody) {
  run(check_head());
}

TEST_F(ContractTest, ThePageMayRunItsOwnScriptAndNothingElse) {
  const ContractPage& page = page_at("/docs");
  EXPECT_NE(page.security_policy.find("default-src 'none'"), std::string_view::npos);
  EXPECT_NE(page.security_policy.find("script-src 'sha256-"), std::string_view::npos);
  EXPECT_EQ(page.security_policy.find("unsafe"), std::string_view::npos);
  for (const auto* outside : {"src=", "http://", "https://", "@import", "url("}) {
    EXPECT_EQ(page.content.find(outside), std::string_view::npos) << outside;
  }
}

}  // namespace
}  // namespace atl::service::native
