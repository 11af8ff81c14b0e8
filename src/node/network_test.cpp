// The sockets of a cell's network on their way from the node to atolld: the real client and the
// real server over a real socket, with fakes behind.
#include <sys/stat.h>

#include "base/strings.h"
#include "node/client.h"
#include "node/server.h"
#include "node/testing/node_fixture.h"

namespace atl::node {
namespace {

ino_t number_of(const Fd& fd) {
  struct stat status{};
  EXPECT_EQ(::fstat(fd.get(), &status), 0);
  return status.st_ino;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    ++count;
  }
  return count;
}

class NodeNetworkTest : public testing::NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    runtime_.have_networks();
    serve();
    client_ = connect_node(reactor_, directory_ + "/node.sock");
  }
  void TearDown() override {
    client_.reset();
    server_.reset();
    NodeFixture::TearDown();
  }
  void serve() {
    auto server = Server::start({.cells = *cells_,
                                 .events = events_,
                                 .hello = {.version = "test", .egress = true},
                                 .socket_path = directory_ + "/node.sock",
                                 .peer_uid = ::geteuid(),
                                 .peer_gid = ::getegid()});
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
  }
  template <class T>
  Result<T> run(Task<T> task) {
    return reactor_.run_until_complete(std::move(task));
  }

  io::Reactor reactor_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Node> client_;
};

TEST_F(NodeNetworkTest, ACreateIsAnsweredWithTheSocketsThatTheNodeKeeps) {
  const auto made = run(client_->create(request("a")));
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_NE(made->network, nullptr);
  const auto again = run(client_->open_network("a"));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(number_of(made->network->tcp), number_of(again->tcp));
  EXPECT_EQ(number_of(made->network->udp), number_of(again->udp));
  EXPECT_EQ(number_of(made->network->dns), number_of(again->dns));
  EXPECT_EQ(runtime_.networks_opened(), 0U);
}

TEST_F(NodeNetworkTest, ANodeThatStartedAgainMakesThemAnewOnce) {
  ASSERT_TRUE(run(client_->create(request("a"))));
  client_.reset();
  server_.reset();
  crash();
  start();
  serve();
  client_ = connect_node(reactor_, directory_ + "/node.sock");
  const auto first = run(client_->open_network("a"));
  ASSERT_TRUE(first) << first.error().message;
  const auto second = run(client_->open_network("a"));
  ASSERT_TRUE(second);
  EXPECT_EQ(number_of(first->tcp), number_of(second->tcp));
  EXPECT_EQ(runtime_.networks_opened(), 1U);
}

TEST_F(NodeNetworkTest, CellsThatPassHaveNoNetwork) {
  const auto made = run(client_->create(request("build-1")));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->network, nullptr);
  EXPECT_FALSE(runtime_.spec("build-1").egress);
  for (const char* id : {"build-1", "files-1", "../etc", "", "vol-1"}) {
    const auto network = run(client_->open_network(id));
    ASSERT_FALSE(network) << id;
    EXPECT_EQ(network.error().code, Code::kInvalidArgument) << id;
    EXPECT_FALSE(run(client_->open_socket({.id = id}))) << id;
  }
}

TEST_F(NodeNetworkTest, OnlyACellThatRunsHasOne) {
  EXPECT_EQ(run(client_->open_network("nobody")).error().code, Code::kNotFound);
  EXPECT_EQ(run(client_->open_socket({.id = "nobody"})).error().code, Code::kNotFound);
  ASSERT_TRUE(run(client_->create(request("a"))));
  runtime_.die("a");
  while (cells_->list("", 1).front().running) {
    std::this_thread::yield();
  }
  EXPECT_EQ(run(client_->open_network("a")).error().reason, "not_running");
  EXPECT_EQ(run(client_->open_socket({.id = "a"})).error().reason, "not_running");
}

TEST_F(NodeNetworkTest, AnEndedCellLeavesNoDescriptorBehind) {
  ASSERT_TRUE(run(client_->hello()));  // the connection
  const std::size_t before = open_descriptors();
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(run(client_->create(request("a"))));
    ASSERT_TRUE(run(client_->open_network("a")));
    ASSERT_TRUE(run(client_->open_socket({.id = "a", .type = SocketType::kDatagram})));
    ASSERT_TRUE(run(client_->destroy({.id = "a"})));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(NodeNetworkTest, ACellCostsTheNodeTwoDescriptors) {
  const std::size_t before = open_descriptors();
  for (const char* id : {"a", "b", "c"}) {
    ASSERT_TRUE(cells_->create(request(id)));
  }
  // One that stands for the process, one for three sockets; and the fake has one itself.
  EXPECT_EQ(open_descriptors(), before + std::size_t{3} * 3);
}

TEST_F(NodeNetworkTest, KindsOfSocketsAreChecked) {
  ASSERT_TRUE(run(client_->create(request("a"))));
  for (const auto& bad : {SocketRequest{.id = "a", .type = static_cast<SocketType>(9)},
                          SocketRequest{.id = "a", .family = static_cast<SocketFamily>(1)}}) {
    const auto socket = run(client_->open_socket(bad));
    ASSERT_FALSE(socket);
    EXPECT_EQ(socket.error().code, Code::kInvalidArgument);
  }
  EXPECT_TRUE(run(client_->open_socket({.id = "a", .family = SocketFamily::kInet6})));
}

}  // namespace
}  // namespace atl::node
