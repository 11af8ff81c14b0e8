#include "node/parked_sockets.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/long_lived_fd.h"
#include "io/fd_passing.h"

namespace atl::node {
namespace {

constexpr uid_t kUnchanged = static_cast<uid_t>(-1);

// Raw: the C library's call would change every thread of the process.
bool set_real_user(uid_t uid) {
  return ::syscall(SYS_setresuid, uid, kUnchanged, kUnchanged) == 0;
}

// Lends the calling thread a real user id, by which the kernel charges. Nothing else depends on it:
// rights come from the effective id and the capabilities, which stay, and so does the saved id. A
// node that may not change it (a test without root) is charged itself.
class ChargedTo {
 public:
  explicit ChargedTo(uid_t uid) : own_(::getuid()), changed_(uid != 0 && set_real_user(uid)) {}
  ~ChargedTo() { CHECK(!changed_ || set_real_user(own_)); }
  ChargedTo(const ChargedTo&) = delete;
  ChargedTo& operator=(const ChargedTo&) = delete;

 private:
  uid_t own_;
  bool changed_;
};

}  // namespace

Result<std::shared_ptr<const ParkedSockets>> ParkedSockets::park(const NetworkSockets& sockets,
                                                                 std::uint32_t charged_uid) {
  int pair[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
    return fail_errno("making a place for a cell's sockets");
  }
  Fd holder{pair[0]};
  const Fd sender{pair[1]};
  {
    const ChargedTo owner{charged_uid};
    TRY_DO(io::send_datagram(sender.get(), "n",
                             {sockets.tcp.get(), sockets.udp.get(), sockets.dns.get()}));
  }
  return std::shared_ptr<const ParkedSockets>{new ParkedSockets{keep_long(std::move(holder))}};
}

Result<NetworkSockets> ParkedSockets::copies() const {
  TRY(io::Datagram kept, io::look_at_datagram(holder_.get(), 1));
  if (kept.fds.size() != kNetworkSocketCount) {
    return fail(Code::kInternal, "the sockets of a cell are not where they were put");
  }
  return NetworkSockets{std::move(kept.fds[0]), std::move(kept.fds[1]), std::move(kept.fds[2])};
}

}  // namespace atl::node
