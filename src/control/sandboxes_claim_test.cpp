// Claims by name, in numbers and at most once; and lists.
#include <algorithm>

#include "base/fault_point.h"
#include "base/random.h"
#include "control/sandboxes_fixture.h"

namespace atl::control {
namespace {

class ClaimTest : public SandboxesTest {
 protected:
  Result<ClaimAnswer> claim_all(ClaimRequest request) {
    request.template_name = "default";
    return simulation_.run(sandboxes_->claim_all(std::move(request)));
  }
  ClaimRequest once(std::string key, std::string body = "body") {
    ClaimRequest request{.template_name = "default"};
    request.once = ClaimOnce{
        .key = std::move(key),
        .body_sha256 = sha256(body),
        .remember = [](const ClaimAnswer& answer) { return answer.sandboxes.front().id; }};
    return request;
  }
  // Runs all at the same time.
  std::vector<Result<ClaimAnswer>> race(std::vector<ClaimRequest> requests) {
    std::vector<std::optional<Result<ClaimAnswer>>> results(requests.size());
    Scope scope{simulation_.loop};
    for (std::size_t i = 0; i < requests.size(); ++i) {
      scope.spawn("claim", Simulation::store_result(sandboxes_->claim_all(std::move(requests[i])),
                                                    results[i]));
    }
    EXPECT_TRUE(simulation_.run(scope.join()));
    std::vector<Result<ClaimAnswer>> answers;
    for (auto& result : results) {
      answers.push_back(*std::move(result));
    }
    return answers;
  }
};

TEST_F(ClaimTest, ANameIsTakenOnceAndFreeAfterDeletionAlsoOverARestart) {
  const auto first = claim({.name = "web"});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->name, "web");
  EXPECT_EQ(claim({.name = "web"}).error().reason, "name_taken");
  close();
  open();
  EXPECT_EQ(claim({.name = "web"}).error().reason, "name_taken");
  ASSERT_TRUE(simulation_.run(sandboxes_->remove(kTeam, first->id)));
  EXPECT_TRUE(claim({.name = "web"}));
}

TEST_F(ClaimTest, BadNamesAndCountsAreRefused) {
  for (const std::string& name :
       std::vector<std::string>{"a b", "a/b", std::string(64, 'a'), "ü"}) {
    EXPECT_EQ(claim({.name = name}).error().code, Code::kInvalidArgument) << name;
  }
  EXPECT_FALSE(claim({.get_or_create = true}));
  EXPECT_FALSE(claim({.count = 0}));
  EXPECT_FALSE(claim({.count = 101}));
  EXPECT_FALSE(claim({.name = "a", .count = 2}));
  EXPECT_TRUE(node_.cells.empty());
}

TEST_F(ClaimTest, ManyAtOnceGetOneSandboxOfAName) {
  node_.latency = [] { return Duration{std::chrono::milliseconds{3}}; };
  std::vector<ClaimRequest> requests(
      8, ClaimRequest{.template_name = "default", .name = "web", .get_or_create = true});
  const auto answers = race(std::move(requests));
  std::set<std::string> ids;
  int created = 0;
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer) << answer.error().message;
    ids.insert(answer->sandboxes.front().id);
    created += answer->created ? 1 : 0;
  }
  EXPECT_EQ(ids.size(), 1U);
  EXPECT_EQ(created, 1);
  EXPECT_EQ(node_.creates, 1U);
}

TEST_F(ClaimTest, WhoeverWaitsForAFailedNameMakesItThemselves) {
  node_.latency = [] { return Duration{std::chrono::milliseconds{3}}; };
  int creates = 0;
  node_.fault = [&creates](std::string_view operation) {
    return operation == "create" && ++creates == 1 ? FakeNode::Fault::kRefused
                                                   : FakeNode::Fault::kNone;
  };
  std::vector<ClaimRequest> requests(
      4, ClaimRequest{.template_name = "default", .name = "web", .get_or_create = true});
  const auto answers = race(std::move(requests));
  EXPECT_EQ(std::count_if(answers.begin(), answers.end(), [](const auto& a) { return !a; }), 1);
  EXPECT_EQ(store_->list_sandboxes()->size(), 1U);
}

TEST_F(ClaimTest, ABatchIsMadeSideBySide) {
  node_.latency = [] { return Duration{std::chrono::milliseconds{100}}; };
  const UnixMillis begin = simulation_.clock.now();
  const auto answer = claim_all({.count = 5});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->sandboxes.size(), 5U);
  EXPECT_EQ(store_->list_sandboxes()->size(), 5U);
  EXPECT_LT(simulation_.clock.now() - begin, 300);
}

TEST_F(ClaimTest, ABatchIsAllOrNothing) {
  int creates = 0;
  node_.fault = [&creates](std::string_view operation) {
    return operation == "create" && ++creates == 2 ? FakeNode::Fault::kRefused
                                                   : FakeNode::Fault::kNone;
  };
  EXPECT_FALSE(claim_all({.count = 3}));
  EXPECT_TRUE(node_.cells.empty());
  EXPECT_TRUE(store_->list_sandboxes()->empty());
  EXPECT_EQ(claim_all({.count = 6}).error().reason, "quota_exceeded");
  EXPECT_TRUE(sandboxes_->list({}).sandboxes.empty());
}

TEST_F(ClaimTest, APartialBatchKeepsWhatItGot) {
  int creates = 0;
  node_.fault = [&creates](std::string_view operation) {
    return operation == "create" && ++creates == 2 ? FakeNode::Fault::kRefused
                                                   : FakeNode::Fault::kNone;
  };
  const auto answer = claim_all({.count = 7, .partial = true});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->sandboxes.size(), 4U);  // five fit the quota, one was refused
  EXPECT_EQ(answer->failures.size(), 3U);
  EXPECT_EQ(node_.cells.size(), 4U);
  EXPECT_EQ(store_->list_sandboxes()->size(), 4U);
}

TEST_F(ClaimTest, AKeyClaimsOnceAlsoOverARestart) {
  const auto first = simulation_.run(sandboxes_->claim_all(once("k")));
  ASSERT_TRUE(first) << first.error().message;
  const std::string id = first->sandboxes.front().id;
  EXPECT_EQ(simulation_.run(sandboxes_->claim_all(once("k")))->remembered, id);
  close();
  open();
  EXPECT_EQ(simulation_.run(sandboxes_->claim_all(once("k")))->remembered, id);
  EXPECT_EQ(simulation_.run(sandboxes_->claim_all(once("k", "other"))).error().reason,
            "idempotency_conflict");
  EXPECT_EQ(node_.creates, 1U);
  simulation_.clock.advance_ms(store::kClaimKeyMs);
  const auto later = simulation_.run(sandboxes_->claim_all(once("k", "other")));
  ASSERT_TRUE(later);
  EXPECT_FALSE(later->remembered) << "a day later the key is new";
}

TEST_F(ClaimTest, TheSameKeyAtTheSameTimeMakesOneSandbox) {
  node_.latency = [] { return Duration{std::chrono::milliseconds{3}}; };
  const auto answers = race({once("k"), once("k"), once("k"), once("k", "other")});
  int made = 0;
  int remembered = 0;
  for (const auto& answer : answers) {
    made += answer && !answer->remembered ? 1 : 0;
    remembered += answer && answer->remembered ? 1 : 0;
  }
  EXPECT_EQ(made, 1);
  EXPECT_EQ(remembered, 2);
  EXPECT_EQ(answers.back().error().reason, "idempotency_conflict");
  EXPECT_EQ(node_.creates, 1U);
}

TEST_F(ClaimTest, AClaimThatFailsDoesNotUseUpItsKey) {
  node_.fault = [](std::string_view operation) {
    return operation == "create" ? FakeNode::Fault::kRefused : FakeNode::Fault::kNone;
  };
  EXPECT_FALSE(simulation_.run(sandboxes_->claim_all(once("k"))));
  node_.fault = nullptr;
  const auto again = simulation_.run(sandboxes_->claim_all(once("k")));
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->remembered);
}

TEST_F(ClaimTest, ListsAreFilteredByLabelNameAndStatus) {
  const auto a = claim({.name = "web-1", .labels = {{"env", "prod"}, {"app", "shop"}}});
  const auto b = claim({.name = "web-2", .labels = {{"env", "test"}, {"app", "shop"}}});
  const auto c = claim({.name = "db"});
  ASSERT_TRUE(a && b && c);
  const auto ids = [this](const ListRequest& request) {
    std::set<std::string> found;
    for (const auto& sandbox : sandboxes_->list(request).sandboxes) {
      found.insert(sandbox.id);
    }
    return found;
  };
  using Ids = std::set<std::string>;
  EXPECT_EQ(ids({.labels = {{"app", "shop"}}}), (Ids{a->id, b->id}));
  EXPECT_EQ(ids({.labels = {{"app", "shop"}, {"env", "test"}}}), Ids{b->id});
  EXPECT_EQ(ids({.labels = {{"app", ""}}}), Ids{});
  EXPECT_EQ(ids({.name = "db"}), Ids{c->id});
  EXPECT_EQ(ids({.name_prefix = "web-"}), (Ids{a->id, b->id}));
  EXPECT_EQ(ids({.status = SandboxStatus::kFailed}), Ids{});
  EXPECT_EQ(ids({.paused = false}).size(), 3U);
  EXPECT_FALSE(claim({.labels = {{"a=b", ""}}}));
  EXPECT_FALSE(claim({.labels = {{"k", std::string(1025, 'x')}}}));
}

TEST_F(ClaimTest, ThoseOfOneMillisecondAreListedInTheOrderOfTheirClaims) {
  options_.max_sandboxes = 100;
  close();
  open();
  std::vector<std::string> made;
  for (int i = 0; i < 20; ++i) {
    made.insert(made.begin(), claim()->id);
  }
  std::vector<std::string> listed;
  for (const auto& sandbox : sandboxes_->list({}).sandboxes) {
    listed.push_back(sandbox.id);
  }
  EXPECT_EQ(listed, made);
}

TEST_F(ClaimTest, PagesNeitherRepeatNorSkipWhileSandboxesComeAndGo) {
  options_.max_sandboxes = 100;
  close();
  open();
  std::set<std::string> stay;
  std::vector<std::string> leave;
  for (int i = 0; i < 12; ++i) {
    const std::string id = claim()->id;
    i % 3 == 0 ? leave.push_back(id) : (void)stay.insert(id);
  }
  std::set<std::string> seen;
  ListRequest request{.limit = 2};
  for (;;) {
    const auto page = sandboxes_->list(request);
    for (const auto& sandbox : page.sandboxes) {
      EXPECT_TRUE(seen.insert(sandbox.id).second) << "twice: " << sandbox.id;
    }
    if (!page.has_more) {
      break;
    }
    const auto& last = page.sandboxes.back();
    const auto cursor = parse_cursor(format_cursor({last.created_at, last.id}));
    ASSERT_TRUE(cursor);
    request.after = cursor;
    ASSERT_TRUE(claim());
    if (!leave.empty()) {
      ASSERT_TRUE(simulation_.run(sandboxes_->remove(kTeam, leave.back())));
      leave.pop_back();
    }
  }
  for (const auto& id : stay) {
    EXPECT_TRUE(seen.contains(id)) << "skipped: " << id;
  }
  for (const auto* bad : {"", "x", "12", "x.rs-a",
                          "1.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    EXPECT_FALSE(parse_cursor(bad)) << bad;
  }
}

TEST_F(ClaimTest, APageIsNewestFirstAlsoAfterARestart) {
  options_.max_sandboxes = 20;
  close();
  open();
  std::vector<std::string> mine;
  for (int i = 0; i < 6; ++i) {
    mine.insert(mine.begin(), claim()->id);
    simulation_.advance_ms(2);
  }
  ASSERT_TRUE(simulation_.run(sandboxes_->remove(kTeam, mine[2])));
  simulation_.advance_ms(10);
  mine.erase(mine.begin() + 2);
  const auto page = [&](ListRequest request) {
    const auto answer = sandboxes_->list(request);
    std::vector<std::string> ids;
    for (const auto& sandbox : answer.sandboxes) {
      ids.push_back(sandbox.id);
    }
    return std::pair{ids, answer.has_more};
  };
  for (int restarts = 0; restarts < 2; ++restarts) {
    EXPECT_EQ(page({}), std::pair(mine, false));
    const std::vector<std::string> middle{mine[1], mine[2]};
    EXPECT_EQ(page({.limit = 2, .offset = 1}), std::pair(middle, true));
    EXPECT_EQ(page({.limit = 5}), std::pair(mine, false)) << "exactly full";
    EXPECT_EQ(page({.limit = 0}), std::pair(std::vector<std::string>{}, true));
    EXPECT_EQ(page({.offset = 9}), std::pair(std::vector<std::string>{}, false));
    EXPECT_EQ(page({.team_id = "nobody"}), std::pair(std::vector<std::string>{}, false));
    close();
    open();
  }
}

// The row is there, but a power cut may take it: nobody may be told that the fork is.
TEST_F(ClaimTest, AForkThatIsNotOnTheDiskIsNotMade) {
  const auto points = fault::points();
  const auto point = std::ranges::find(points, std::string_view{"store.log.sync"},
                                       [](const fault::Point& each) { return each.name; });
  if (point == points.end()) {
    GTEST_SKIP() << "built without fault points";
  }
  ClaimRequest request = once("key");
  request.origin = Origin{.layers = {"layer-1"}, .limits = {1ULL << 30, 1000, 100, 1ULL << 30}};
  ASSERT_TRUE(claim_all(request));
  fault::Plan plan{};
  plan.orders[0] = {.point = static_cast<std::uint32_t>(point - points.begin()) + 1,
                    .skip = 0,
                    .times = 1,
                    .action = static_cast<std::uint32_t>(fault::Action::kFail),
                    .error_number = EIO,
                    .acted = 0};
  fault::plan = &plan;
  request.once->key = "another key";
  const auto refused = claim_all(request);
  fault::plan = nullptr;
  EXPECT_EQ(1U, plan.orders[0].acted);
  ASSERT_FALSE(refused);
  EXPECT_EQ("sync_failed", refused.error().reason);
  EXPECT_EQ(1U, store_->list_sandboxes()->size());
  const auto remembered = store_->find_claim_key(kTeam, "another key", simulation_.clock.now());
  ASSERT_TRUE(remembered);
  EXPECT_FALSE(*remembered);
}

// One that is on its way out though its row does not say so.
TEST_F(ClaimTest, WhoCountsSeesTheStatusThatIsListed) {
  ASSERT_TRUE(claim());
  node_.fault = [](std::string_view operation) {
    return operation == "create"    ? FakeNode::Fault::kRefused
           : operation == "destroy" ? FakeNode::Fault::kUnreached
                                    : FakeNode::Fault::kNone;
  };
  EXPECT_FALSE(claim());
  std::map<std::string, SandboxStatus> seen;
  sandboxes_->each([&](const Sandbox& row) { seen.emplace(row.id, row.status); });
  std::map<std::string, SandboxStatus> listed;
  for (const Sandbox& row : sandboxes_->list({.team_id = kTeam, .limit = 10}).sandboxes) {
    listed.emplace(row.id, row.status);
  }
  EXPECT_EQ(seen, listed);
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_EQ(std::ranges::count(seen, SandboxStatus::kTerminating,
                               &std::pair<const std::string, SandboxStatus>::second),
            1);
}

}  // namespace
}  // namespace atl::control
