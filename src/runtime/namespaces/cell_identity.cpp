#include "runtime/namespaces/cell_identity.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/random.h"
#include "base/strings.h"

namespace atl::runtime::namespaces {
namespace {

constexpr const char* kOwnerAttribute = "trusted.atoll.cell";
constexpr std::size_t kMaxIdBytes = 63;
constexpr std::size_t kMaxHostsBytes = std::size_t{64} * 1024;
// Debian's address of the host's own name: the line that is ours in /etc/hosts.
constexpr const char kOwnAddress[] = "127.0.1.1";
constexpr const char* kNewName = "/etc/.atoll-identity";

constexpr const char* kShared[] = {
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_rsa_key.pub",
    "/etc/ssh/ssh_host_rsa_key-cert.pub",
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/ssh/ssh_host_dsa_key.pub",
    "/etc/ssh/ssh_host_dsa_key-cert.pub",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ecdsa_key.pub",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_ed25519_key.pub",
    "/etc/ssh/ssh_host_key",
    "/etc/ssh/ssh_host_key.pub",
    "/var/lib/systemd/random-seed",
    "/var/lib/systemd/credential.secret",
    "/var/lib/urandom/random-seed",
};

// The image's author or the owner has something else there.
bool is_their_choice(int error) {
  return error == ENOENT || error == ENOTDIR || error == EISDIR || error == ENOTEMPTY;
}

int write_new_file(const char* path, const char* content, std::size_t size, mode_t mode) {
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (fd < 0) {
    return errno;
  }
  const bool written = ::write(fd, content, size) == static_cast<ssize_t>(size);
  ::close(fd);
  return written ? 0 : EIO;
}

// Whatever has the name is replaced, a link by a file.
int replace_file(const char* path, const char* content, std::size_t size, mode_t mode) {
  ::unlink(kNewName);
  const int error = write_new_file(kNewName, content, size, mode);
  if (error != 0) {
    return is_their_choice(error) ? 0 : error;
  }
  if (::rename(kNewName, path) == 0) {
    return 0;
  }
  const int refused = errno;
  ::unlink(kNewName);
  return is_their_choice(refused) ? 0 : refused;
}

// Fills `text` and returns its size; 0 when there is no such file of a sane size.
std::size_t read_small_file(const char* path, char* text, std::size_t capacity) {
  const int fd = ::open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    return 0;
  }
  struct stat info{};
  std::size_t size = 0;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
      static_cast<std::uint64_t>(info.st_size) <= capacity) {
    ssize_t got = 1;
    while (got > 0 && size < capacity) {
      got = ::read(fd, text + size, capacity - size);
      size += got > 0 ? static_cast<std::size_t>(got) : 0;
    }
  }
  ::close(fd);
  return size;
}

struct HostsText {
  char old_text[kMaxHostsBytes];
  char new_text[kMaxHostsBytes + 256];
};

// Everything but the line of the host's own name, which is another one now.
int write_hosts(const CellPlan& plan) {
  HostsText text;  // not static: the child borrows the node's memory, and others do so beside it
  const std::size_t size = read_small_file("/etc/hosts", text.old_text, sizeof text.old_text);
  if (size == 0) {
    return replace_file("/etc/hosts", plan.hosts_file, std::strlen(plan.hosts_file), 0644);
  }
  std::size_t end = 0;
  for (std::size_t at = 0; at < size;) {
    const void* newline = std::memchr(text.old_text + at, '\n', size - at);
    const std::size_t next =
        newline == nullptr
            ? size
            : static_cast<std::size_t>(static_cast<const char*>(newline) - text.old_text) + 1;
    constexpr std::size_t kAddressBytes = sizeof kOwnAddress - 1;
    const bool ours =
        next - at > kAddressBytes &&
        std::memcmp(text.old_text + at, kOwnAddress, kAddressBytes) == 0 &&
        (text.old_text[at + kAddressBytes] == '\t' || text.old_text[at + kAddressBytes] == ' ');
    if (!ours) {
      std::memcpy(text.new_text + end, text.old_text + at, next - at);
      end += next - at;
    }
    at = next;
  }
  if (end > 0 && text.new_text[end - 1] != '\n') {
    text.new_text[end++] = '\n';
  }
  const std::size_t line = std::strlen(plan.own_hosts_line);
  std::memcpy(text.new_text + end, plan.own_hosts_line, line);
  return replace_file("/etc/hosts", text.new_text, end + line, 0644);
}

// Where it is no link to the other one.
int write_dbus_machine_id(const CellPlan& plan) {
  struct stat info{};
  if (::lstat("/var/lib/dbus/machine-id", &info) != 0 || !S_ISREG(info.st_mode)) {
    return 0;
  }
  return replace_file("/var/lib/dbus/machine-id", plan.machine_id_file,
                      std::strlen(plan.machine_id_file), 0444);
}

}  // namespace

bool disk_belongs_to(const std::string& upper_dir, const std::string& id) {
  std::array<char, kMaxIdBytes> owner{};
  const ssize_t size = ::getxattr(upper_dir.c_str(), kOwnerAttribute, owner.data(), owner.size());
  return size >= 0 && std::string_view{owner.data(), static_cast<std::size_t>(size)} == id;
}

Result<> mark_disk(const std::string& upper_dir, const std::string& id) {
  if (::setxattr(upper_dir.c_str(), kOwnerAttribute, id.data(), id.size(), 0) != 0) {
    return fail_errno(concat("marking ", upper_dir));
  }
  return {};
}

std::string make_boot_id() {
  std::string digits = random_hex(32);
  digits[12] = '4';  // a random UUID, RFC 9562
  digits[16] = "89ab"[static_cast<unsigned char>(digits[16]) % 4];
  return concat(digits.substr(0, 8), "-", digits.substr(8, 4), "-", digits.substr(12, 4), "-",
                digits.substr(16, 4), "-", digits.substr(20), "\n");
}

int write_missing_file(const char* path, const char* content) {
  const int error = write_new_file(path, content, std::strlen(content), 0644);
  return error == EEXIST || is_their_choice(error) ? 0 : error;
}

int write_identity(const CellPlan& plan) {
  int error =
      replace_file("/etc/hostname", plan.hostname_file, std::strlen(plan.hostname_file), 0644);
  if (error == 0) {
    error = write_hosts(plan);
  }
  if (error == 0) {
    error = replace_file("/etc/machine-id", plan.machine_id_file, std::strlen(plan.machine_id_file),
                         0444);
  }
  if (error == 0) {
    error = write_dbus_machine_id(plan);
  }
  if (error == 0 && plan.network != nullptr) {
    const std::string& resolver = plan.network->resolver_file;
    error = replace_file("/etc/resolv.conf", resolver.data(), resolver.size(), 0644);
  }
  for (const char* path : kShared) {
    if (error == 0 && ::unlink(path) != 0 && !is_their_choice(errno)) {
      error = errno;
    }
  }
  return error;
}

}  // namespace atl::runtime::namespaces
