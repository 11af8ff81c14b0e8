// atolld's side of the node protocol: typed calls that suspend instead of blocking.
//
// Keeps a small pool of connections to the node's socket; each carries one request at a time. When
// the node goes away calls fail with kUnavailable and the next call connects again. Loop thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/task.h"
#include "io/reactor.h"
#include "node/protocol.h"

namespace atl::node {

// What control needs from a node; a fake implements it in control's tests. A node that has no
// storage to change may leave out the part about layers, snapshots and volumes.
class Node {
 public:
  virtual ~Node() = default;
  virtual Task<HelloAnswer> hello() = 0;
  virtual Task<CellInfo> create(CreateRequest request) = 0;
  virtual Task<> destroy(DestroyRequest request) = 0;
  virtual Task<std::vector<CellInfo>> list() = 0;
  virtual Task<Usage> usage(std::string id) = 0;
  virtual Task<> set_limits(std::string id, Limits limits) = 0;
  // It stands still, and what it wrote is on disk.
  virtual Task<> freeze(std::string id) = 0;
  virtual Task<> thaw(std::string id) = 0;
  // The memory of one that stands still goes to disk. When it cannot, it still stands still.
  virtual Task<DumpAnswer> dump(std::string id);
  // Disks that were made with commit_later outlive a power cut from here on.
  virtual Task<> commit_disks();
  virtual Task<> commit_layer(CommitRequest request);
  virtual Task<> remove_layer(std::string layer);
  virtual Task<std::vector<std::string>> list_layers();
  virtual Task<SnapshotAnswer> snapshot(SnapshotRequest request);
  virtual Task<> restore(SnapshotRequest request);
  virtual Task<> remove_snapshot(std::string snapshot);
  virtual Task<std::vector<std::string>> list_snapshots();
  virtual Task<> create_volume(VolumeRequest request);
  virtual Task<> remove_volume(std::string volume);
  virtual Task<std::vector<std::string>> list_volumes();
  virtual Task<Usage> volume_usage(std::string volume);
  virtual Task<> snapshot_volume(VolumeRequest request);
  virtual Task<> restore_volume(VolumeRequest request);
  virtual Task<> detach_volume(DetachRequest request);
  // The network of a cell that runs, also one that is frozen: the sockets it has had from its
  // beginning, or new ones when nobody has those any more.
  virtual Task<NetworkSockets> open_network(std::string id);
  // A bare socket of the cell's network, to connect with or to answer from.
  virtual Task<Fd> open_socket(SocketRequest request);
  virtual Task<> build_builtin(std::string name);  // returns at once; events tell the rest
  // The next event; kUnavailable when the connection to the node was lost (events may have been
  // missed: call list() and watch again).
  virtual Task<Event> next_event() = 0;
};

std::unique_ptr<Node> connect_node(io::Reactor& reactor, std::string socket_path);

}  // namespace atl::node
