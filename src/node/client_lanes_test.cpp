// What ends cells: thousands at once delay nobody, and none of them is refused.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/scope.h"
#include "base/strings.h"
#include "io/reactor.h"
#include "node/client.h"
#include "node/limits.h"
#include "node/server.h"
#include "node/testing/node_fixture.h"

namespace atl::node {
namespace {

class NodeClientLanesTest : public testing::NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    const std::string path = directory_ + "/node.sock";
    auto server = Server::start({.cells = *cells_,
                                 .events = events_,
                                 .hello = {.version = "test", .templates = {{"default", {"l"}}}},
                                 .socket_path = path,
                                 .peer_uid = ::geteuid(),
                                 .peer_gid = ::getegid()});
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
    client_ = connect_node(reactor_, path);
  }
  void TearDown() override {
    client_.reset();
    server_.reset();
    NodeFixture::TearDown();
  }

  io::Reactor reactor_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Node> client_;
};

Task<> end_in_background(Node& node, std::string id) {
  auto ended = co_await node.destroy({.id = std::move(id), .in_background = true});
  EXPECT_TRUE(ended.has_value()) << ended.error().message;
  co_return ok();
}

// All of the others hang until this one has been answered.
Task<> end_one_while_others_end(Node& node, std::vector<std::unique_ptr<IdLocks::Guard>>& held) {
  Scope ending{co_await current_context()};
  for (std::size_t i = 0; i < held.size(); ++i) {
    ending.spawn("ending", end_in_background(node, concat("end", i)));
  }
  auto ended = co_await with_deadline(std::chrono::seconds{20}, node.destroy({.id = "asked"}));
  EXPECT_TRUE(ended.has_value()) << "one that somebody waits for";
  held.clear();
  co_return co_await ending.join();
}

TEST_F(NodeClientLanesTest, WhatEndsInTheBackgroundDelaysNobody) {
  std::vector<std::unique_ptr<IdLocks::Guard>> held;
  for (std::size_t i = 0; i < kMaxClientConnections + 4; ++i) {
    held.emplace_back(new IdLocks::Guard{cells_->locks().lock(concat("end", i))});
  }
  ASSERT_TRUE(reactor_.run_until_complete(end_one_while_others_end(*client_, held)));
}

Task<> end_many(Node& node, std::size_t count) {
  Scope ending{co_await current_context()};
  for (std::size_t i = 0; i < count; ++i) {
    ending.spawn("ending", end_in_background(node, concat("end", i)));
  }
  co_return co_await ending.join();
}

TEST_F(NodeClientLanesTest, HoweverManyAreToEndNoneIsRefused) {
  ASSERT_TRUE(reactor_.run_until_complete(end_many(*client_, kMaxWaitingCalls + 100)));
}

}  // namespace
}  // namespace atl::node
