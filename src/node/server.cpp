#include "node/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/strings.h"
#include "io/fd_passing.h"
#include "node/limits.h"
#include "node/messages.h"
#include "node/volumes.h"

namespace atl::node {
namespace {

constexpr timeval kSendTimeout{10, 0};
constexpr int kSendBufferBytes = 2 * static_cast<int>(kMaxMessageBytes);

// Not listening yet when its owner and mode are set, so nobody gets in before.
Result<Fd> open_socket(const std::string& path, uid_t uid, gid_t gid) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(Code::kInvalidArgument, concat("socket path is too long: ", path));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Fd fd{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  if (!fd) {
    return fail_errno("creating a socket");
  }
  ::unlink(path.c_str());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 || ::lchown(path.c_str(), uid, gid) != 0 ||
      ::listen(fd.get(), kListenBacklog) != 0) {
    return fail_errno(concat("listening on ", path));
  }
  return fd;
}

std::vector<std::string> page_after(std::vector<std::string> names, const std::string& last) {
  std::ranges::sort(names);
  names.erase(names.begin(), std::ranges::upper_bound(names, last));
  names.resize(std::min(names.size(), kLayersPerPage));
  return names;
}

bool has_left(int socket) {
  pollfd peer{socket, POLLRDHUP, 0};
  return ::poll(&peer, 1, 0) > 0 && (peer.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

// Asks what there is.
bool is_inventory(RequestKind kind) {
  return kind == RequestKind::kHello || kind == RequestKind::kList ||
         kind == RequestKind::kListLayers || kind == RequestKind::kListSnapshots ||
         kind == RequestKind::kListVolumes;
}

// Whoever asks what there is waits for what others left under way, except for this: it may take
// minutes, and until its end there is a cell that stands still, which is no lie.
bool is_waited_for(RequestKind kind) {
  return kind != RequestKind::kDump;
}

}  // namespace

class Server::Busy {
 public:
  Busy(Server& server, int socket) : server_(server), socket_(socket) {
    const std::lock_guard lock{server_.busy_mutex_};
    server_.busy_.insert(socket_);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  ~Busy() {
    const std::lock_guard lock{server_.busy_mutex_};
    server_.busy_.erase(socket_);
    server_.busy_changed_.notify_all();
  }

 private:
  Server& server_;
  int socket_;
};

// Two of them never wait for each other: whoever waits has not left.
void Server::wait_for_abandoned(int asking) {
  std::unique_lock lock{busy_mutex_};
  busy_changed_.wait(lock,
                     [&] { return has_left(asking) || std::ranges::none_of(busy_, has_left); });
}

Result<std::unique_ptr<Server>> Server::start(Parts parts) {
  TRY(Fd listening, open_socket(parts.socket_path, parts.peer_uid, parts.peer_gid));
  Fd wake{::eventfd(0, EFD_CLOEXEC)};
  if (!wake) {
    return fail_errno("creating an event descriptor");
  }
  return std::unique_ptr<Server>{
      new Server{std::move(parts), std::move(listening), std::move(wake)}};
}

Server::Server(Parts parts, Fd listening, Fd wake)
    : parts_(std::move(parts)),
      listening_(std::move(listening)),
      wake_(std::move(wake)),
      accepting_([this] { accept_loop(); }) {}

Server::~Server() {
  const std::uint64_t one = 1;
  CHECK(::write(wake_.get(), &one, sizeof one) == sizeof one);
  accepting_.join();
  ::unlink(parts_.socket_path.c_str());
  for (Connection& connection : connections_) {
    ::shutdown(connection.socket.get(), SHUT_RD);  // an answer under way still goes out
  }
  connections_.clear();
}

void Server::accept_loop() {
  for (;;) {
    pollfd ready[2] = {{listening_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    const int count = ::poll(ready, 2, -1);
    CHECK(count >= 0 || errno == EINTR);
    if (count < 0) {
      continue;
    }
    if (ready[1].revents != 0) {
      return;
    }
    accept_one();
  }
}

bool Server::is_allowed(int socket) const {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return false;
  }
  if (peer.uid != 0 && peer.uid != parts_.peer_uid) {
    LOG_WARN("refused a connection of another user", {"uid", peer.uid}, {"pid", peer.pid});
    return false;
  }
  return true;
}

void Server::accept_one() {
  Fd socket{::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  if (!socket) {
    LOG_WARN("accepting a connection", {"error", errno_error("accept")});
    return;
  }
  if (!is_allowed(socket.get())) {
    return;
  }
  connections_.remove_if([](const Connection& connection) { return connection.done.load(); });
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kSendBufferBytes,
               sizeof kSendBufferBytes);
  if (connections_.size() >= kMaxServerConnections) {
    (void)io::send_datagram(socket.get(), encode_error({Code::kResourceExhausted,
                                                        "the node has too many connections", ""}));
    return;
  }
  Connection& connection = connections_.emplace_back();
  connection.socket = std::move(socket);
  connection.thread = std::jthread{[this, &connection] {
    serve(connection);
    // The peer must see the end now; the descriptor itself is closed with the connection.
    ::shutdown(connection.socket.get(), SHUT_RDWR);
    connection.done = true;
  }};
}

void Server::serve(Connection& connection) {
  const int socket = connection.socket.get();
  for (;;) {
    const auto datagram = receive_message(socket);
    if (!datagram || datagram->empty()) {
      return;
    }
    if (*datagram == encode_plain(RequestKind::kWatch)) {
      stream_events(socket);
      return;
    }
    const auto request = decode_request(*datagram);
    if (request && is_inventory(request->kind)) {
      wait_for_abandoned(socket);
    }
    std::optional<Busy> busy;
    if (!request || is_waited_for(request->kind)) {
      busy.emplace(*this, socket);
    }
    Passed passed;
    auto answer = request ? handle(*request, passed) : Result<std::string>{fail(request.error())};
    const auto sent = answer ? io::send_datagram(socket, encode_ok(*answer), passed.fds())
                             : io::send_datagram(socket, encode_error(answer.error()));
    if (!sent) {
      return;
    }
  }
}

// Events are sent by whoever publishes them; this thread only waits for the watcher to leave.
void Server::stream_events(int socket) {
  if (!io::send_datagram(socket, encode_ok()) || !set_nonblocking(socket, true)) {
    return;
  }
  parts_.events.add(socket);
  pollfd left{socket, POLLIN, 0};
  while (::poll(&left, 1, -1) < 0 && errno == EINTR) {
  }
  parts_.events.remove(socket);
}

std::vector<int> Server::Passed::fds() const {
  if (network != nullptr) {
    return {network->tcp.get(), network->udp.get(), network->dns.get()};
  }
  return socket ? std::vector{socket.get()} : std::vector<int>{};
}

Result<std::string> Server::handle(const DecodedRequest& request, Passed& passed) {
  switch (request.kind) {
    case RequestKind::kHello: {
      HelloAnswer hello = parts_.hello;
      if (parts_.templates != nullptr) {
        hello.templates = parts_.templates->list();
      }
      return encode_payload(hello);
    }
    case RequestKind::kList:
      return encode_payload(parts_.cells.list(request.id, kCellsPerPage));
    case RequestKind::kCommitLayer:
    case RequestKind::kRemoveLayer:
    case RequestKind::kListLayers:
    case RequestKind::kBuildBuiltin:
      return handle_layer(request);
    case RequestKind::kSnapshot:
    case RequestKind::kRestore:
    case RequestKind::kRemoveSnapshot:
    case RequestKind::kListSnapshots:
    case RequestKind::kCommitDisks:
      return handle_snapshot(request);
    case RequestKind::kCreateVolume:
    case RequestKind::kRemoveVolume:
    case RequestKind::kListVolumes:
    case RequestKind::kVolumeUsage:
    case RequestKind::kSnapshotVolume:
    case RequestKind::kRestoreVolume:
      return handle_volume(request);
    case RequestKind::kOpenNetwork:
    case RequestKind::kOpenSocket:
      return handle_network(request, passed);
    default:
      return handle_cell(request, passed);
  }
}

Result<std::string> Server::handle_layer(const DecodedRequest& request) {
  if (parts_.pool == nullptr || parts_.templates == nullptr) {
    return fail(Code::kUnimplemented, "this node does not make layers");
  }
  switch (request.kind) {
    case RequestKind::kCommitLayer:
      TRY_DO(parts_.cells.commit(request.commit.id, request.commit.layer));
      return std::string{};
    case RequestKind::kRemoveLayer:
      for (const TemplateInfo& info : parts_.templates->list()) {
        if (request.layer == kEmptyLayer || info.layers == std::vector{request.layer}) {
          return fail(Code::kFailedPrecondition,
                      concat("layer ", request.layer, " belongs to this installation"));
        }
      }
      TRY_DO(parts_.cells.remove_layer(request.layer));
      return std::string{};
    case RequestKind::kListLayers: {
      TRY(std::vector<std::string> names, parts_.pool->list_layers());
      return encode_payload(page_after(std::move(names), request.layer));
    }
    default:
      TRY_DO(parts_.templates->build(request.name));
      return std::string{};
  }
}

Result<std::string> Server::handle_snapshot(const DecodedRequest& request) {
  if (parts_.pool == nullptr) {
    return fail(Code::kUnimplemented, "this node does not make snapshots");
  }
  switch (request.kind) {
    case RequestKind::kSnapshot: {
      TRY(const SnapshotAnswer answer, parts_.cells.snapshot(request.snapshot));
      return encode_payload(answer);
    }
    case RequestKind::kRestore:
      TRY_DO(parts_.cells.restore(request.snapshot));
      return std::string{};
    case RequestKind::kRemoveSnapshot:
      TRY_DO(parts_.cells.remove_snapshot(request.layer));
      return std::string{};
    case RequestKind::kCommitDisks:
      TRY_DO(parts_.pool->commit_uppers());
      ATOLL_FAULT_POINT("node.disks.committed");
      return std::string{};
    default: {
      TRY(std::vector<std::string> names, parts_.pool->list_snapshots());
      return encode_payload(page_after(std::move(names), request.layer));
    }
  }
}

Result<std::string> Server::handle_volume(const DecodedRequest& request) {
  if (parts_.pool == nullptr) {
    return fail(Code::kUnimplemented, "this node has no volumes");
  }
  Volumes volumes{*parts_.pool, parts_.cells.locks()};
  switch (request.kind) {
    case RequestKind::kCreateVolume:
      TRY_DO(volumes.create(request.volume));
      return std::string{};
    case RequestKind::kRemoveVolume:
      TRY_DO(volumes.remove(request.volume.volume));
      return std::string{};
    case RequestKind::kVolumeUsage: {
      TRY(const Usage usage, volumes.usage(request.volume.volume));
      return encode_payload(usage);
    }
    case RequestKind::kSnapshotVolume:
      TRY_DO(volumes.snapshot(request.volume));
      return std::string{};
    case RequestKind::kRestoreVolume:
      TRY_DO(parts_.cells.restore_volume(request.volume));
      return std::string{};
    default: {
      TRY(std::vector<std::string> names, volumes.list());
      return encode_payload(page_after(std::move(names), request.layer));
    }
  }
}

Result<std::string> Server::handle_network(const DecodedRequest& request, Passed& passed) {
  if (request.kind == RequestKind::kOpenNetwork) {
    TRY(passed.network, parts_.cells.open_network(request.id));
  } else {
    TRY(passed.socket, parts_.cells.open_socket(request.socket));
  }
  return std::string{};
}

Result<std::string> Server::handle_cell(const DecodedRequest& request, Passed& passed) {
  Cells& cells = parts_.cells;
  const auto done = [](const Result<>& result) -> Result<std::string> {
    return result ? Result<std::string>{} : fail(result.error());
  };
  switch (request.kind) {
    case RequestKind::kCreate: {
      TRY(const CellInfo info, cells.create(request.create));
      passed.network = info.network;
      return encode_payload(info);
    }
    case RequestKind::kUsage: {
      TRY(const Usage usage, cells.usage(request.id));
      return encode_payload(usage);
    }
    case RequestKind::kDump: {
      TRY(const DumpAnswer answer, cells.dump(request.id));
      return encode_payload(answer);
    }
    case RequestKind::kDestroy:
      return done(cells.destroy(request.destroy));
    case RequestKind::kSetLimits:
      return done(cells.set_limits(request.id, request.limits));
    case RequestKind::kFreeze:
      return done(cells.freeze(request.id));
    case RequestKind::kThaw:
      return done(cells.thaw(request.id));
    case RequestKind::kDetachVolume:
      return done(cells.detach(request.detach));
    default:
      return fail(Code::kUnimplemented, "the node does not know this request");
  }
}

}  // namespace atl::node
