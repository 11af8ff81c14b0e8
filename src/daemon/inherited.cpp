#include "daemon/inherited.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/strings.h"
#include "daemon/api_process.h"
#include "daemon/child.h"
#include "io/stream.h"
#include "tls/context.h"

namespace atl::daemon {
namespace {

constexpr std::size_t kHashBytes = 32;
constexpr std::size_t kMaxIdentityBytes = std::size_t{2} << 20;

}  // namespace

Result<std::string> read_admin_hash(int fd) {
  std::string hash(kHashBytes, '\0');
  if (::pread(fd, hash.data(), hash.size(), 0) != static_cast<ssize_t>(hash.size())) {
    return fail(Code::kInternal, "the supervisor handed over no admin key");
  }
  ::close(fd);
  return hash;
}

Result<secrets::Keyring> read_keyring(int fd) {
  std::string text(secrets::kMaxKeyFileBytes, '\0');
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  ::close(fd);
  auto keyring = secrets::Keyring::parse(
      std::string_view{text}.substr(0, static_cast<std::size_t>(std::max<ssize_t>(size, 0))));
  secrets::wipe(text);
  return keyring;
}

Result<std::unique_ptr<tls::Context>> read_tls_identity(int fd) {
  if (fd < 0) {
    return nullptr;
  }
  std::string pem(kMaxIdentityBytes, '\0');
  const ssize_t size = ::pread(fd, pem.data(), pem.size(), 0);
  ::close(fd);
  if (size <= 0 || static_cast<std::size_t>(size) == pem.size()) {
    return fail(Code::kInternal, "the supervisor handed over no usable certificate");
  }
  pem.resize(static_cast<std::size_t>(size));
  auto context = tls::Context::server(
      {.identity = {.certificate_pem = pem, .key_pem = pem}, .protocols = {"h2", "http/1.1"}});
  ::explicit_bzero(pem.data(), pem.size());
  return context;
}

Result<Fd> open_port(const ApiOptions& options) {
  if (options.listen_fd >= 0) {
    stop_inheriting(options.listen_fd);
    return Fd{options.listen_fd};
  }
  auto bound = io::Listener::bind_tcp(options.host, options.port);
  if (!bound && bound.error().reason == "EADDRINUSE") {
    return fail(Code::kFailedPrecondition,
                concat(bound.error().message, "; stop what uses it or choose another --listen"));
  }
  return bound;
}

std::uint16_t port_of(int fd, std::uint16_t asked) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return asked;
  }
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace atl::daemon
