#include "daemon/notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/fd.h"

namespace atl::daemon {

ServiceNotifier::ServiceNotifier() {
  if (const char* path = std::getenv("NOTIFY_SOCKET")) {
    socket_path_ = path;
    ::unsetenv("NOTIFY_SOCKET");
  }
}

void ServiceNotifier::send(std::string_view state) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path_.empty() || socket_path_.size() >= sizeof address.sun_path) {
    return;
  }
  std::memcpy(address.sun_path, socket_path_.c_str(), socket_path_.size());
  if (address.sun_path[0] == '@') {
    address.sun_path[0] = '\0';  // an abstract socket
  }
  const Fd fd{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  if (!fd) {
    return;
  }
  // Nobody to tell when it fails: systemd itself will notice by its start timeout.
  (void)::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                 reinterpret_cast<const sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_path_.size()));
}

}  // namespace atl::daemon
