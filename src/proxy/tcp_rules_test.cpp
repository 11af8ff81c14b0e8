// Connections while somebody is asked about them, and where they are dialled.
#include "proxy/test_tcp.h"

namespace atl::proxy {
namespace {

Task<> parked(TcpTest& test) {
  test.world.park = true;
  const auto stream = test.inside->connect(test.reactor, "203.0.113.5:8080");
  CO_TRY_DO(co_await stream->write("ehlo there\r\n"));
  CO_TRY_DO(co_await test.world.wait_for_question());
  test.proxy->set_rules(test.rules(kCareful));
  test.world.approve = true;
  test.world.answered.set();
  CO_TRY(const std::string answer, co_await read_some(*stream));
  EXPECT_EQ(answer, "ehlo there\r\n");
  test.world.answered.clear();
  test.world.questions.clear();
  {
    const auto impatient = test.inside->connect(test.reactor, "203.0.113.5:8080");
    CO_TRY_DO(co_await impatient->write(hello("seen.example")));
    CO_TRY_DO(co_await test.world.wait_for_question());
    EXPECT_EQ(test.world.questions.back().what, "tls seen.example:8080");
  }
  CO_TRY(const auto record, co_await test.world.wait_for(Outcome::kFailed));
  EXPECT_TRUE(record.reason.contains("hung up")) << record.reason;
  EXPECT_EQ(test.good.connections, 1U);
  co_return ok();
}
TEST_F(TcpTest, AQuestionOutlivesARulesPushAndGoesWithItsClient) {
  steps(kCareful, parked(*this));
}

Task<> cut_where_dialled(TcpTest& test) {
  const auto stream = test.inside->connect(test.reactor, "203.0.113.6:8080");
  CO_TRY_DO(co_await stream->write(hello("good.example")));
  CO_TRY_DO(co_await read_some(*stream));
  test.proxy->set_rules(test.rules(R"({"mode":"block-all","egress":{"trafficRules":[
    {"name":"closed","action":"deny","cidrs":["203.0.113.5/32"]},
    {"name":"good","action":"allow","domains":["good.example"]}]}})"));
  CO_TRY(const std::string rest, co_await read_to_end(*stream));
  EXPECT_EQ(rest, "<ECONNRESET>");
  CO_TRY(const auto record, co_await test.world.wait_for(Outcome::kDenied));
  EXPECT_EQ(record.rule, "closed");
  test.world.records.clear();
  CO_TRY(const std::string elsewhere,
         co_await test.talk("203.0.113.6:8080", hello("db.atoll.internal")));
  EXPECT_EQ(elsewhere.substr(0, 1), "\x15");
  CO_TRY(const auto peer, co_await test.world.wait_for(Outcome::kDenied));
  EXPECT_EQ(peer.rule, "peer");
  co_return ok();
}
TEST_F(TcpTest, AnInventedAddressDoesNotOutliveARuleAboutTheDialledOne) {
  steps(kOneName, cut_where_dialled(*this));
}

Task<> asks_elsewhere(TcpTest& test) {
  CO_TRY(const std::string answer, co_await test.talk("203.0.113.6:8080", hello("good.example")));
  EXPECT_EQ(answer.substr(0, 1), "\x15");
  EXPECT_TRUE(test.world.questions.empty());
  EXPECT_EQ(test.good.connections, 0U);
  co_return ok();
}
TEST_F(TcpTest, AnAddressThatARuleAsksAboutIsNotDialledUnasked) {
  steps(R"({"mode":"block-all","egress":{"trafficRules":[
    {"name":"careful","action":"ask","cidrs":["203.0.113.5/32"]},
    {"name":"good","action":"allow","domains":["good.example"]}]}})",
        asks_elsewhere(*this));
}

}  // namespace
}  // namespace atl::proxy
