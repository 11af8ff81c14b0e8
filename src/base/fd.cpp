#include "base/fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace atl {

void Fd::reset() {
  if (fd_ >= 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

Result<Fd> Fd::duplicate() const {
  const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) {
    return fail_errno("duplicating a descriptor");
  }
  return Fd{copy};
}

Result<std::string> read_file_at(int dir_fd, const std::string& path, std::size_t max_bytes) {
  const Fd fd{::openat(dir_fd, path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd) {
    return fail_errno("opening " + path);
  }
  std::string content;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      return fail_errno("reading " + path);
    }
    if (got == 0) {
      return content;
    }
    if (content.size() + static_cast<std::size_t>(got) > max_bytes) {
      return fail(Code::kResourceExhausted, path + " is larger than expected");
    }
    content.append(buffer, static_cast<std::size_t>(got));
  }
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  return read_file_at(AT_FDCWD, path, max_bytes);
}

Result<> write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t wrote = ::write(fd, content.data(), content.size());
    if (wrote < 0) {
      if (errno == EINTR) {
        continue;
      }
      return fail_errno("writing");
    }
    content.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

Result<> write_existing_at(int dir_fd, const std::string& path, std::string_view content) {
  const Fd fd{::openat(dir_fd, path.c_str(), O_WRONLY | O_CLOEXEC)};
  if (!fd) {
    return fail_errno("opening " + path);
  }
  if (::write(fd.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
    return fail_errno("writing " + path);
  }
  return {};
}

Result<> write_existing(const std::string& path, std::string_view content) {
  return write_existing_at(AT_FDCWD, path, content);
}

Result<> replace_file(const std::string& path, std::string_view content, ReplaceOptions options) {
  static std::atomic<unsigned> serial{0};
  const std::string temporary =
      path + ".tmp" + std::to_string(::getpid()) + "-" + std::to_string(serial.fetch_add(1));
  const Fd fd{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, options.mode)};
  if (!fd) {
    return fail_errno("creating " + temporary);
  }
  auto written = write_all(fd.get(), content);
  if (written && options.durable && ::fsync(fd.get()) != 0) {
    written = fail_errno("syncing " + temporary);
  }
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = fail_errno("replacing " + path);
  }
  if (!written) {
    ::unlink(temporary.c_str());
    return written;
  }
  if (options.durable) {
    const auto slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const Fd parent{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!parent || ::fsync(parent.get()) != 0) {
      return fail_errno("syncing " + directory);
    }
  }
  return {};
}

Result<> set_nonblocking(int fd, bool on) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) != 0) {
    return fail_errno("changing O_NONBLOCK");
  }
  return {};
}

}  // namespace atl
