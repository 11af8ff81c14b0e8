// net, why and approvals: whole invocations against the fake server.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "base/strings.h"
#include "cli/fake_api.h"

namespace atl::cli {
namespace {

const std::string kFlows = "GET /api/v1/sandboxes/rs-1/network/flows";

Json flow(std::string_view name, std::string_view outcome, std::string_view origin = "sandbox") {
  return Json::object({{"id", concat("f-", name)},
                       {"sandbox_id", "rs-1"},
                       {"began_at", "2026-01-01T00:00:00.000Z"},
                       {"kind", "flow"},
                       {"transport", "tcp"},
                       {"protocol", "tls"},
                       {"destination", "93.184.216.34:443"},
                       {"dialled", "93.184.216.34:443"},
                       {"name", name},
                       {"outcome", outcome},
                       {"origin", origin},
                       {"rule", "web"},
                       {"reason", "rule web\x1b[31m says so"},
                       {"bytes_out", 10},
                       {"bytes_in", 2048}});
}

Json page(std::initializer_list<Json> flows) {
  return Json::object({{"flows", Json{Json::Array{flows}}}, {"count", flows.size()}});
}

class NetTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-net-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string file(std::string_view name, std::string_view content) {
    const std::string path = concat(directory_, "/", name);
    std::ofstream{path} << content;
    return path;
  }

  FakeApi api_;
  std::string directory_;
};

TEST_F(NetTest, FlowsAreShownOldestFirstAndHarmless) {
  api_.answers[kFlows] = page({flow("b.example", "denied"), flow("a.example", "allowed")});
  const auto shown = api_.run({"net", "flows", "rs-1"});
  EXPECT_EQ(shown.status, 0) << shown.error;
  EXPECT_LT(shown.output.find("a.example:443"), shown.output.find("b.example:443"));
  EXPECT_NE(shown.output.find("10 B out, 2.0 KiB in"), std::string::npos) << shown.output;
  EXPECT_EQ(shown.output.find('\x1b'), std::string::npos);
  EXPECT_EQ(api_.run({"net", "flows", "-q", "rs-1"}).output, "f-a.example\nf-b.example\n");
  EXPECT_NE(api_.run({"net", "flows"}).error.find("atoll net flows SANDBOX"), std::string::npos);
}

TEST_F(NetTest, LearnsWhatWasAllowed) {
  api_.answers[kFlows] = page({flow("b.example", "denied"), flow("a.example", "allowed"),
                               flow("x.example", "denied", "class")});
  const auto learned = api_.run({"net", "learn", "rs-1"});
  EXPECT_EQ(learned.status, 0) << learned.error;
  EXPECT_NE(learned.output.find("\"a.example\""), std::string::npos) << learned.output;
  EXPECT_EQ(learned.output.find("b.example"), std::string::npos);
  EXPECT_NE(learned.output.find("block-all"), std::string::npos);
  const auto with_denied = api_.run({"net", "learn", "rs-1", "--denied"});
  EXPECT_NE(with_denied.output.find("b.example"), std::string::npos);
  EXPECT_EQ(with_denied.output.find("x.example"), std::string::npos);
}

TEST_F(NetTest, ADraftIsTriedAgainstWhatWas) {
  api_.answers[kFlows] = page({flow("a.example", "allowed"), flow("b.example", "denied")});
  const auto learned = file("policy.json", api_.run({"net", "learn", "rs-1"}).output);
  const auto same = api_.run({"net", "test", learned, "--against", "rs-1"});
  EXPECT_EQ(same.status, 0) << same.error;
  EXPECT_NE(same.error.find("2 flows, 2 as before, 0 would change"), std::string::npos)
      << same.error;
  const auto closed = file("closed.json", R"({"mode":"block-all"})");
  const auto worse = api_.run({"net", "test", closed, "--against", "rs-1"});
  EXPECT_EQ(worse.status, 1);
  EXPECT_NE(worse.output.find("allowed -> deny  a.example:443"), std::string::npos) << worse.output;
  const auto open = file("open.json", R"({"network":{"mode":"allow-all"}})");
  const auto more = api_.run({"net", "test", open, "--against", "rs-1"});
  EXPECT_EQ(more.status, 0);
  EXPECT_NE(more.output.find("denied  -> allow  b.example:443"), std::string::npos) << more.output;
  // From a file, as a page or as lines.
  const auto log = file("log.json", api_.run({"net", "flows", "rs-1", "-o", "json"}).output);
  EXPECT_EQ(api_.run({"net", "test", closed, "--against", log}).status, 1);
  const auto lines = file("log.ndjson", flow("a.example", "allowed").dump() + "\n\n" +
                                            flow("b.example", "denied").dump() + "\n");
  EXPECT_EQ(api_.run({"net", "test", closed, "--against", lines}).status, 1);
  EXPECT_EQ(api_.run({"net", "test", learned, "--against", lines}).status, 0);
  const auto wrong = file("wrong.json", R"({"mode":"maybe"})");
  EXPECT_NE(api_.run({"net", "test", wrong, "--against", lines}).error.find("mode"),
            std::string::npos);
}

TEST_F(NetTest, WhyAsksTheServer) {
  Json layers = Json::array();
  layers.push(Json::object({{"origin", "operator"}, {"action", "deny"}, {"rule", "no-db"}}));
  Json advice = Json::array();
  advice.push("change rule no-db");
  api_.answers["GET /api/v1/sandboxes/rs-1/network/why"] =
      Json::object({{"action", "deny"},
                    {"reason", "rule no-db of the operator policy denies db.example:5432"},
                    {"layers", std::move(layers)},
                    {"advice", std::move(advice)}});
  const auto denied = api_.run({"why", "rs-1", "db.example:5432"});
  EXPECT_EQ(denied.status, 1);
  EXPECT_NE(denied.output.find("deny  rule no-db of the operator"), std::string::npos)
      << denied.output;
  EXPECT_NE(denied.output.find("operator: deny by no-db"), std::string::npos);
  EXPECT_NE(denied.output.find("hint: change rule no-db"), std::string::npos);
  api_.answers["GET /api/v1/network/flows/f-1"] = flow("db.example", "denied");
  const auto was = api_.run({"why", "f-1"});
  EXPECT_EQ(was.status, 1);
  EXPECT_NE(was.output.find("now: deny"), std::string::npos) << was.output << was.error;
}

TEST_F(NetTest, ApprovalsAreListedAndAnswered) {
  Json list = Json::array();
  list.push(Json::object({{"id", "ap-1"},
                          {"sandbox_id", "rs-1"},
                          {"state", "pending"},
                          {"asked_at", "2020-01-01T00:00:00Z"},
                          {"rule", "ask"},
                          {"what", "GET https://a.example/"}}));
  api_.answers["GET /api/v1/approvals"] = Json::object({{"approvals", std::move(list)}});
  EXPECT_EQ(api_.run({"approvals", "ls", "-q"}).output, "ap-1\n");
  EXPECT_NE(api_.run({"approvals", "ls"}).output.find("GET https://a.example/"), std::string::npos);
  const std::string answer = "POST /api/v1/approvals/ap-1";
  api_.answers[answer] = Json::object({{"id", "ap-1"}});
  EXPECT_EQ(api_.run({"approvals", "allow", "--session", "ap-1"}).status, 0);
  EXPECT_EQ(api_.sent[answer], R"({"decision":"allow","remember":"session"})");
  EXPECT_EQ(api_.run({"approvals", "deny", "ap-1"}).status, 0);
  EXPECT_EQ(api_.sent[answer], R"({"decision":"deny","remember":"once"})");
  EXPECT_NE(api_.run({"approvals", "deny"}).error.find("atoll approvals deny ID"),
            std::string::npos);
}

}  // namespace
}  // namespace atl::cli
