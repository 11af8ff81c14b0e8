// A call takes an idle connection (or opens one, or waits for one), sends its datagram, waits for
// the answer and puts the connection back. A call that fails in between or is cancelled closes its
// connection: the answer that might still come must not be taken for another call's.
#include "node/client.h"

#include "base/scope.h"
#include "base/strings.h"
#include "node/call_lane.h"
#include "node/client_connection.h"
#include "node/limits.h"

namespace atl::node {
namespace {

std::unexpected<Error> no_layers() {
  return fail(Code::kUnimplemented, "this node does not make layers");
}

struct Answer {
  std::string payload;
  std::vector<Fd> fds;  // that nobody expects are closed
};

Result<> expect_fds(const Answer& answer, std::size_t count) {
  if (answer.fds.size() != count) {
    return fail(Code::kInternal,
                concat("the node sent ", answer.fds.size(), " sockets, not ", count));
  }
  return {};
}

Result<NetworkSockets> take_network(Answer& answer) {
  TRY_DO(expect_fds(answer, kNetworkSocketCount));
  return NetworkSockets{std::move(answer.fds[0]), std::move(answer.fds[1]),
                        std::move(answer.fds[2])};
}

class NodeClient final : public Node {
 public:
  NodeClient(io::Reactor& reactor, std::string socket_path)
      : reactor_(reactor), socket_path_(std::move(socket_path)) {}

  Task<HelloAnswer> hello() override {
    CO_TRY(const auto answer, co_await call(encode_plain(RequestKind::kHello)));
    co_return decode_hello(answer.payload);
  }
  Task<CellInfo> create(CreateRequest request) override {
    // From a snapshot it is a copy of it, where the pool cannot do better; memory comes from disk.
    const bool slow = !request.from_snapshot.empty() || request.restore_memory;
    auto created = slow                    ? slow_call(encode(request))
                   : request.in_background ? call_in(background_, encode(request))
                                           : call(encode(request));
    CO_TRY(auto answer, co_await std::move(created));
    CO_TRY(CellInfo info, decode_cell(answer.payload));
    if (!answer.fds.empty()) {
      CO_TRY(auto network, take_network(answer));
      info.network = std::make_shared<NetworkSockets>(std::move(network));
    }
    co_return std::move(info);
  }
  Task<> destroy(DestroyRequest request) override {
    auto destroyed = request.sync            ? slow_call(encode(request))
                     : request.in_background ? call_after_others(ending_, encode(request))
                                             : call(encode(request));
    CO_TRY_DO(co_await std::move(destroyed));
    co_return ok();
  }
  Task<std::vector<CellInfo>> list() override;
  Task<Usage> usage(std::string id) override {
    CO_TRY(const auto answer, co_await call(encode_with_id(RequestKind::kUsage, id)));
    co_return decode_usage(answer.payload);
  }
  Task<> set_limits(std::string id, Limits limits) override {
    CO_TRY_DO(co_await call(encode_set_limits(id, limits)));
    co_return ok();
  }
  Task<> freeze(std::string id) override {
    CO_TRY_DO(co_await slow_call(encode_with_id(RequestKind::kFreeze, id)));
    co_return ok();
  }
  Task<DumpAnswer> dump(std::string id) override {
    CO_TRY(const auto answer, co_await slow_call(encode_with_id(RequestKind::kDump, id)));
    co_return decode_dump(answer.payload);
  }
  Task<> thaw(std::string id) override {
    CO_TRY_DO(co_await call(encode_with_id(RequestKind::kThaw, id)));
    co_return ok();
  }
  Task<> commit_disks() override {
    CO_TRY_DO(co_await slow_call(encode_plain(RequestKind::kCommitDisks)));
    co_return ok();
  }
  Task<> commit_layer(CommitRequest request) override {
    CO_TRY_DO(co_await slow_call(encode(request)));
    co_return ok();
  }
  Task<> remove_layer(std::string layer) override {
    CO_TRY_DO(co_await call(encode_with_id(RequestKind::kRemoveLayer, layer)));
    co_return ok();
  }
  Task<std::vector<std::string>> list_layers() override {
    return list_names(RequestKind::kListLayers);
  }
  Task<SnapshotAnswer> snapshot(SnapshotRequest request) override {
    CO_TRY(const auto answer, co_await slow_call(encode(RequestKind::kSnapshot, request)));
    co_return decode_snapshot(answer.payload);
  }
  Task<> restore(SnapshotRequest request) override {
    CO_TRY_DO(co_await slow_call(encode(RequestKind::kRestore, request)));
    co_return ok();
  }
  Task<> remove_snapshot(std::string snapshot) override {
    CO_TRY_DO(co_await call(encode_with_id(RequestKind::kRemoveSnapshot, snapshot)));
    co_return ok();
  }
  Task<std::vector<std::string>> list_snapshots() override {
    return list_names(RequestKind::kListSnapshots);
  }
  Task<> create_volume(VolumeRequest request) override {
    return change_volume(RequestKind::kCreateVolume, std::move(request));
  }
  Task<> remove_volume(std::string volume) override {
    return change_volume(RequestKind::kRemoveVolume, {.volume = std::move(volume)});
  }
  Task<std::vector<std::string>> list_volumes() override {
    return list_names(RequestKind::kListVolumes);
  }
  Task<Usage> volume_usage(std::string volume) override {
    CO_TRY(const auto answer,
           co_await call(encode_volume(RequestKind::kVolumeUsage,
                                       VolumeRequest{.volume = std::move(volume)})));
    co_return decode_usage(answer.payload);
  }
  Task<> snapshot_volume(VolumeRequest request) override {
    return change_volume(RequestKind::kSnapshotVolume, std::move(request));
  }
  Task<> restore_volume(VolumeRequest request) override {
    return change_volume(RequestKind::kRestoreVolume, std::move(request));
  }
  Task<> detach_volume(DetachRequest request) override {
    CO_TRY_DO(co_await call(encode(request)));
    co_return ok();
  }
  Task<NetworkSockets> open_network(std::string id) override {
    CO_TRY(auto answer, co_await call(encode_with_id(RequestKind::kOpenNetwork, id)));
    co_return take_network(answer);
  }
  Task<Fd> open_socket(SocketRequest request) override {
    CO_TRY(auto answer, co_await call(encode(request)));
    CO_TRY_DO(expect_fds(answer, 1));
    co_return std::move(answer.fds.front());
  }
  Task<> build_builtin(std::string name) override {
    CO_TRY_DO(co_await call(encode_with_id(RequestKind::kBuildBuiltin, name)));
    co_return ok();
  }
  Task<Event> next_event() override;

 private:
  Task<std::vector<std::string>> list_names(RequestKind kind);
  // What is written to a volume is on disk when it is answered: that may take long.
  Task<> change_volume(RequestKind kind, VolumeRequest request) {
    CO_TRY_DO(co_await slow_call(encode_volume(kind, request)));
    co_return ok();
  }

  // A connection for one call. What is not given back is closed.
  class Lease {
   public:
    // REQUIRES: a place in connections_, which is left with it.
    explicit Lease(NodeClient& client) : client_(&client) {
      if (!client_->idle_.empty()) {
        connection_ = std::move(client_->idle_.back());
        client_->idle_.pop_back();
      }
    }
    Lease(Lease&& other) noexcept
        : client_(std::exchange(other.client_, nullptr)),
          connection_(std::move(other.connection_)) {}
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (client_ != nullptr) {
        client_->connections_.leave();
      }
    }
    bool has_connection() const { return connection_ != nullptr; }
    void connect(std::unique_ptr<Connection> connection) { connection_ = std::move(connection); }
    Connection& operator*() { return *connection_; }
    void give_back() { client_->idle_.push_back(std::move(connection_)); }

   private:
    NodeClient* client_;
    std::unique_ptr<Connection> connection_;
  };

  Task<Answer> call(std::string request) {
    return with_deadline(kCallTimeout, exchange(std::move(request)));
  }
  // One that waits for a disk.
  Task<Answer> slow_call(std::string request) { return call_in(slow_, std::move(request)); }
  Task<Answer> call_in(CallLane& lane, std::string request) {
    return with_deadline(kCommitTimeout, exchange_in(lane, std::move(request)));
  }
  // One that many others may be before: its time runs from when it has its place.
  Task<Answer> call_after_others(CallLane& lane, std::string request);
  Task<Answer> exchange(std::string request);
  Task<Answer> exchange_in(CallLane& lane, std::string request);
  Task<> start_watch();

  io::Reactor& reactor_;
  const std::string socket_path_;
  std::vector<std::unique_ptr<Connection>> idle_;
  CallLane connections_{kMaxClientConnections};
  CallLane slow_{kMaxSlowCalls};
  CallLane background_{kMaxBackgroundCalls};
  CallLane ending_{kMaxEndingCalls, kMaxWaitingEndings};
  std::unique_ptr<Connection> watching_;
};

Task<Answer> NodeClient::exchange_in(CallLane& lane, std::string request) {
  CO_TRY_DO(co_await lane.enter());
  auto answer = co_await exchange(std::move(request));
  lane.leave();
  co_return std::move(answer);
}

Task<Answer> NodeClient::call_after_others(CallLane& lane, std::string request) {
  CO_TRY_DO(co_await lane.enter());
  auto answer = co_await call(std::move(request));
  lane.leave();
  co_return std::move(answer);
}

Task<Answer> NodeClient::exchange(std::string request) {
  for (;;) {
    CO_TRY_DO(co_await connections_.enter());
    Lease lease{*this};
    const bool reused = lease.has_connection();
    if (!reused) {
      CO_TRY(auto connection, Connection::open(reactor_, socket_path_));
      lease.connect(std::move(connection));
    }
    const auto sent = co_await (*lease).send(request);
    if (!sent && sent.error().code == Code::kUnavailable && reused) {
      idle_.clear();  // the node has restarted: it never saw this request, so it may be sent again
      continue;
    }
    if (!sent) {
      co_return fail(sent.error());
    }
    CO_TRY(auto message, co_await (*lease).receive());
    lease.give_back();
    CO_TRY(auto payload, decode_answer(message.bytes));
    co_return Answer{std::move(payload), std::move(message.fds)};
  }
}

Task<std::vector<CellInfo>> NodeClient::list() {
  std::vector<CellInfo> all;
  for (;;) {
    const std::string request = all.empty() ? encode_plain(RequestKind::kList)
                                            : encode_with_id(RequestKind::kList, all.back().id);
    CO_TRY(const auto answer, co_await call(request));
    CO_TRY(auto page, decode_cells(answer.payload));
    std::ranges::move(page, std::back_inserter(all));
    if (page.size() < kCellsPerPage) {
      co_return all;
    }
  }
}

Task<std::vector<std::string>> NodeClient::list_names(RequestKind kind) {
  std::vector<std::string> all;
  for (;;) {
    const std::string request = all.empty() ? encode_plain(kind) : encode_with_id(kind, all.back());
    CO_TRY(const auto answer, co_await call(request));
    CO_TRY(auto page, decode_names(answer.payload));
    const std::size_t count = page.size();
    std::ranges::move(page, std::back_inserter(all));
    if (count < kLayersPerPage) {
      co_return all;
    }
  }
}

Task<> NodeClient::start_watch() {
  CO_TRY(auto connection, Connection::open(reactor_, socket_path_));
  CO_TRY_DO(co_await connection->send(encode_plain(RequestKind::kWatch)));
  CO_TRY(const auto answer, co_await connection->receive());
  CO_TRY_DO(decode_answer(answer.bytes));
  watching_ = std::move(connection);
  co_return ok();
}

Task<Event> NodeClient::next_event() {
  if (watching_ == nullptr) {
    CO_TRY_DO(co_await with_deadline(kCallTimeout, start_watch()));
  }
  auto datagram = co_await watching_->receive();
  if (!datagram) {
    // A cancelled wait loses nothing: the next datagram is still whole.
    if (datagram.error().code != Code::kCancelled) {
      watching_.reset();
    }
    co_return fail(std::move(datagram).error());
  }
  co_return decode_event(datagram->bytes);
}

}  // namespace

Task<> Node::commit_layer(CommitRequest) {
  co_return no_layers();
}
Task<> Node::remove_layer(std::string) {
  co_return no_layers();
}
Task<std::vector<std::string>> Node::list_layers() {
  co_return no_layers();
}
Task<DumpAnswer> Node::dump(std::string) {
  co_return fail(Code::kUnimplemented, "this node does not dump memory", "no_memory_dump");
}
Task<> Node::commit_disks() {
  co_return no_layers();
}
Task<SnapshotAnswer> Node::snapshot(SnapshotRequest) {
  co_return no_layers();
}
Task<> Node::restore(SnapshotRequest) {
  co_return no_layers();
}
Task<> Node::remove_snapshot(std::string) {
  co_return no_layers();
}
Task<std::vector<std::string>> Node::list_snapshots() {
  co_return no_layers();
}
Task<> Node::create_volume(VolumeRequest) {
  co_return no_layers();
}
Task<> Node::remove_volume(std::string) {
  co_return no_layers();
}
Task<std::vector<std::string>> Node::list_volumes() {
  co_return no_layers();
}
Task<Usage> Node::volume_usage(std::string) {
  co_return no_layers();
}
Task<> Node::snapshot_volume(VolumeRequest) {
  co_return no_layers();
}
Task<> Node::restore_volume(VolumeRequest) {
  co_return no_layers();
}
Task<> Node::detach_volume(DetachRequest) {
  co_return no_layers();
}
Task<NetworkSockets> Node::open_network(std::string) {
  co_return fail(Code::kUnimplemented, "this node has no networks", "no_egress");
}
Task<Fd> Node::open_socket(SocketRequest) {
  co_return fail(Code::kUnimplemented, "this node has no networks", "no_egress");
}
Task<> Node::build_builtin(std::string) {
  co_return no_layers();
}

std::unique_ptr<Node> connect_node(io::Reactor& reactor, std::string socket_path) {
  return std::make_unique<NodeClient>(reactor, std::move(socket_path));
}

}  // namespace atl::node
