// The real client and the real server over a real socket, with fakes behind.
#include "node/client.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "base/scope.h"
#include "base/strings.h"
#include "io/fd_passing.h"
#include "node/limits.h"
#include "node/messages.h"
#include "node/server.h"
#include "node/testing/node_fixture.h"

namespace atl::node {
namespace {

class NodeClientTest : public testing::NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    serve();
    client_ = connect_node(reactor_, path());
  }
  void TearDown() override {
    client_.reset();
    server_.reset();
    NodeFixture::TearDown();
  }
  void serve() {
    auto server = Server::start({.cells = *cells_,
                                 .events = events_,
                                 .hello = {.version = "test", .templates = {{"default", {"l"}}}},
                                 .socket_path = path(),
                                 .peer_uid = ::geteuid(),
                                 .peer_gid = ::getegid()});
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
  }
  std::string path() const { return directory_ + "/node.sock"; }
  template <class T>
  Result<T> run(Task<T> task) {
    return reactor_.run_until_complete(std::move(task));
  }
  // A bare connection, for what a client of ours would never send.
  Fd connect_raw() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path().c_str(), path().size() + 1);
    Fd fd{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  io::Reactor reactor_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Node> client_;
};

TEST_F(NodeClientTest, TheWholeLifeOfACell) {
  const auto hello = run(client_->hello());
  ASSERT_TRUE(hello) << hello.error().message;
  EXPECT_EQ(hello->version, "test");
  const auto made = run(client_->create(request("a")));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->guest_socket, socket("a"));
  EXPECT_TRUE(run(client_->freeze("a")));
  EXPECT_TRUE(runtime_.is_frozen("a"));
  EXPECT_TRUE(run(client_->thaw("a")));
  EXPECT_TRUE(run(client_->set_limits("a", {.process_count = 9})));
  EXPECT_EQ(runtime_.spec("a").limits.process_count, 9U);
  const auto usage = run(client_->usage("a"));
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->cpu_nanoseconds, 12U);
  const auto cells = run(client_->list());
  ASSERT_TRUE(cells);
  ASSERT_EQ(cells->size(), 1U);
  EXPECT_TRUE(run(client_->destroy({.id = "a"})));
  EXPECT_FALSE(runtime_.exists("a"));
}

TEST_F(NodeClientTest, ErrorsComeThroughWhole) {
  CreateRequest wrong = request("a");
  wrong.layers = {"nothing"};
  const auto made = run(client_->create(wrong));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kNotFound);
  EXPECT_EQ(made.error().reason, "layer_not_found");
  wrong.id = "../etc";
  EXPECT_EQ(run(client_->create(wrong)).error().code, Code::kInvalidArgument);
}

TEST_F(NodeClientTest, AListLongerThanAPageIsWhole) {
  const std::size_t count = kCellsPerPage + 3;
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(cells_->create(request(concat("cell-", i))));
  }
  const auto cells = run(client_->list());
  ASSERT_TRUE(cells) << cells.error().message;
  EXPECT_EQ(cells->size(), count);
}

Task<> create_many(Node& node, std::size_t count, std::size_t& made) {
  Scope scope{co_await current_context()};
  struct One {
    static Task<> run(Node& n, CreateRequest request, std::size_t& total) {
      CO_TRY_DO(co_await n.create(std::move(request)));
      ++total;
      co_return ok();
    }
  };
  for (std::size_t i = 0; i < count; ++i) {
    scope.spawn(
        "create",
        One::run(node, {.id = concat("cell-", i), .hostname = "box", .layers = {"base-1"}}, made));
  }
  co_return co_await scope.join();
}

TEST_F(NodeClientTest, ManyConcurrentCallsShareTheConnections) {
  std::size_t made = 0;
  ASSERT_TRUE(run(create_many(*client_, 200, made)));
  EXPECT_EQ(made, 200U);
  EXPECT_EQ(runtime_.count(), 200U);
}

// The slow create is held until the others have been seen to finish: no clock is involved.
Task<> create_beside_a_slow_one(Node& node, testing::FakeRuntime& runtime, bool& slow_done) {
  Scope scope{co_await current_context()};
  struct Slow {
    static Task<> run(Node& n, bool& done) {
      CO_TRY_DO(co_await n.create({.id = "slow", .hostname = "box", .layers = {"base-1"}}));
      done = true;
      co_return ok();
    }
  };
  scope.spawn("slow", Slow::run(node, slow_done));
  std::size_t made = 0;
  auto others = co_await create_many(node, 20, made);
  EXPECT_EQ(made, 20U);
  EXPECT_FALSE(slow_done);
  runtime.release_create("slow");
  (void)co_await scope.join();
  co_return others;
}

TEST_F(NodeClientTest, OneSlowCreateDoesNotBlockOthers) {
  bool slow_done = false;
  runtime_.hold_create("slow");
  ASSERT_TRUE(run(create_beside_a_slow_one(*client_, runtime_, slow_done)));
  EXPECT_TRUE(slow_done);
}

Task<Event> die_and_watch(Node& node, testing::FakeRuntime& runtime) {
  Scope scope{co_await current_context()};
  struct Watch {
    static Task<> run(Node& n, std::optional<Result<Event>>& event) {
      event.emplace(co_await n.next_event());
      co_return ok();
    }
  };
  // The first watch is established before the cell dies: a cancelled wait keeps its connection.
  auto nothing = co_await with_deadline(std::chrono::milliseconds{50}, node.next_event());
  EXPECT_FALSE(nothing.has_value());
  std::optional<Result<Event>> event;
  scope.spawn("watch", Watch::run(node, event));
  runtime.die("a");
  (void)co_await scope.join();
  co_return *std::move(event);
}

TEST_F(NodeClientTest, ADeathIsCleanedUpAndTold) {
  ASSERT_TRUE(cells_->create(request("a")));
  const auto event = run(die_and_watch(*client_, runtime_));
  ASSERT_TRUE(event) << event.error().message;
  EXPECT_EQ(event->kind, Event::Kind::kCellDied);
  EXPECT_EQ(event->id, "a");
  EXPECT_FALSE(runtime_.exists("a"));
  EXPECT_TRUE(pool_.has_upper("a"));
  const auto cells = run(client_->list());
  ASSERT_TRUE(cells);
  ASSERT_EQ(cells->size(), 1U);
  EXPECT_FALSE((*cells)[0].running);
}

TEST_F(NodeClientTest, ALostNodeIsUnavailableAndThenFoundAgain) {
  ASSERT_TRUE(run(client_->create(request("a"))));
  server_.reset();
  const auto lost = run(client_->hello());
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Code::kUnavailable);
  EXPECT_EQ(run(client_->next_event()).error().code, Code::kUnavailable);
  crash();
  start();
  serve();
  const auto cells = run(client_->list());
  ASSERT_TRUE(cells) << cells.error().message;
  EXPECT_EQ(cells->size(), 1U);
}

TEST_F(NodeClientTest, AnIdleConnectionThatDiedIsReplacedUnseen) {
  ASSERT_TRUE(run(client_->hello()));
  server_.reset();
  serve();
  EXPECT_TRUE(run(client_->hello()));
}

Task<> cancel_a_create(Node& node, testing::FakeRuntime& runtime) {
  auto cut =
      co_await with_deadline(std::chrono::milliseconds{20},
                             node.create({.id = "slow", .hostname = "box", .layers = {"base-1"}}));
  EXPECT_FALSE(cut.has_value());
  runtime.release_create("slow");
  // The answer to the create must not be taken for the answer to this.
  auto hello = co_await node.hello();
  EXPECT_TRUE(hello.has_value() && hello->version == "test");
  co_return ok();
}

TEST_F(NodeClientTest, ACancelledCallNeverConfusesTheNext) {
  runtime_.hold_create("slow");
  ASSERT_TRUE(run(cancel_a_create(*client_, runtime_)));
}

Task<> fork_slowly(Node& node, std::string id) {
  auto made = co_await node.create(
      {.id = std::move(id), .hostname = "box", .layers = {"base-1"}, .from_snapshot = "moment"});
  EXPECT_TRUE(made.has_value());
  co_return ok();
}

Task<> call_while_others_are_slow(Node& node, testing::FakeRuntime& runtime) {
  Scope slow{co_await current_context()};
  for (std::size_t i = 0; i < kMaxClientConnections + 4; ++i) {
    slow.spawn("slow", fork_slowly(node, concat("slow", i)));
  }
  auto hello = co_await with_deadline(std::chrono::seconds{20}, node.hello());
  EXPECT_TRUE(hello.has_value()) << "a quick call finds a connection";
  for (std::size_t i = 0; i < kMaxClientConnections + 4; ++i) {
    runtime.release_create(concat("slow", i));
  }
  co_return co_await slow.join();
}

TEST_F(NodeClientTest, SlowCallsDoNotTakeEveryConnection) {
  ASSERT_TRUE(run(client_->create(request("a"))));
  ASSERT_TRUE(pool_.snapshot_upper("a", "moment"));
  for (std::size_t i = 0; i < kMaxClientConnections + 4; ++i) {
    runtime_.hold_create(concat("slow", i));
  }
  ASSERT_TRUE(run(call_while_others_are_slow(*client_, runtime_)));
}

Task<> make_ahead(Node& node, std::string id) {
  auto made = co_await node.create(
      {.id = std::move(id), .hostname = "box", .layers = {"base-1"}, .in_background = true});
  EXPECT_TRUE(made.has_value());
  co_return ok();
}

// All of them hang until the other create and the other calls have been answered.
Task<> create_while_others_are_made_ahead(Node& node, testing::FakeRuntime& runtime) {
  Scope ahead{co_await current_context()};
  for (std::size_t i = 0; i < kMaxClientConnections + 4; ++i) {
    ahead.spawn("ahead", make_ahead(node, concat("ahead", i)));
  }
  auto made =
      co_await with_deadline(std::chrono::seconds{20},
                             node.create({.id = "asked", .hostname = "box", .layers = {"base-1"}}));
  EXPECT_TRUE(made.has_value()) << "one that somebody waits for";
  auto ended = co_await with_deadline(std::chrono::seconds{20}, node.destroy({.id = "asked"}));
  EXPECT_TRUE(ended.has_value());
  for (std::size_t i = 0; i < kMaxClientConnections + 4; ++i) {
    runtime.release_create(concat("ahead", i));
  }
  co_return co_await ahead.join();
}

TEST_F(NodeClientTest, WhatIsMadeAheadDelaysNobody) {
  for (std::size_t i = 0; i < kMaxClientConnections + 4; ++i) {
    runtime_.hold_create(concat("ahead", i));
  }
  ASSERT_TRUE(run(create_while_others_are_made_ahead(*client_, runtime_)));
  EXPECT_EQ(runtime_.count(), kMaxClientConnections + 4) << "all of them came in the end";
}

TEST_F(NodeClientTest, GarbageGetsAnErrorAndTheServerLives) {
  const Fd raw = connect_raw();
  for (const std::string& bytes :
       {std::string{"\xff"}, std::string(1, '\0'), std::string(1000, 'x'),
        encode_with_id(RequestKind::kUsage, "../x")}) {
    ASSERT_TRUE(io::send_datagram(raw.get(), bytes));
    const auto answer = receive_message(raw.get());
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_FALSE(decode_answer(*answer));
  }
  EXPECT_TRUE(run(client_->hello()));
}

TEST_F(NodeClientTest, PassedDescriptorsAreDropped) {
  const Fd raw = connect_raw();
  ASSERT_TRUE(io::send_datagram(raw.get(), encode_plain(RequestKind::kHello), {raw.get()}));
  const auto answer = receive_message(raw.get());
  ASSERT_TRUE(answer);
  EXPECT_TRUE(decode_answer(*answer));
}

TEST_F(NodeClientTest, ConnectionsHaveALimit) {
  std::vector<Fd> open;
  bool refused = false;
  for (std::size_t i = 0; i < kMaxServerConnections + 1; ++i) {
    open.push_back(connect_raw());
    // EPIPE when the refusal was faster.
    (void)io::send_datagram(open.back().get(), encode_plain(RequestKind::kHello));
    const auto answer = receive_message(open.back().get());
    // The refusal may have closed the connection before its answer could be read.
    refused = !answer || !decode_answer(*answer);
    EXPECT_EQ(refused, i == kMaxServerConnections) << i;
  }
  open.clear();
}

TEST_F(NodeClientTest, AWatcherThatDoesNotReadIsCutOffAndNobodyWaits) {
  const Fd raw = connect_raw();
  ASSERT_TRUE(io::send_datagram(raw.get(), encode_plain(RequestKind::kWatch)));
  ASSERT_TRUE(receive_message(raw.get()));
  ASSERT_TRUE(run(client_->hello()));
  for (int i = 0; i < 20'000; ++i) {
    events_.publish({Event::Kind::kCellDied, std::string(63, 'a')});
  }
  std::size_t received = 0;
  while (const auto message = receive_message(raw.get())) {
    if (message->empty()) {
      break;
    }
    ++received;
  }
  EXPECT_LT(received, 20'000U);
}

TEST_F(NodeClientTest, OnlyOurUserMayConnect) {
  struct stat info{};
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ(info.st_uid, ::geteuid());
}

}  // namespace
}  // namespace atl::node
