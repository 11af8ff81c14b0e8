// Process, the part that moves output: pipe to journal to readers.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "guest/limits.h"
#include "guest/process.h"

namespace atl::guest {
namespace {

bool has_writer(const Fd& pipe) {
  pollfd entry{.fd = pipe.get(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) >= 0 && (entry.revents & POLLHUP) == 0;
}

std::size_t available_bytes(const Fd& fd) {
  int available = 0;
  return ::ioctl(fd.get(), FIONREAD, &available) == 0 && available > 0
             ? static_cast<std::size_t>(available)
             : 0;
}

}  // namespace

Process::OutputInodes Process::output_inodes() const {
  const auto inode = [](const Fd& fd) -> std::uint64_t {
    struct stat pipe{};
    return fd && ::fstat(fd.get(), &pipe) == 0 && S_ISFIFO(pipe.st_mode) ? pipe.st_ino : 0;
  };
  return {inode(sources_[0].fd), inode(sources_[1].fd)};
}

void Process::on_readable(Source& source, std::uint32_t events) {
  if (events == EPOLLHUP && source.stream != Stream::kPty) {
    // Empty, and nobody is left to write: no need to make room for what does not come.
    end_source(source, SourceEnd::kEndOfFile);
  } else if (source.stream == Stream::kChannel) {
    // In this order: what is in the channel now was written after what the pipes hold then.
    const std::size_t available = available_bytes(source.fd);
    read_before_channel();
    read_once(source, std::max<std::size_t>(available, 1));
  } else {
    read_once(source, SIZE_MAX);
  }
  settle();
}

void Process::read_before_channel() {
  for (Source& source : sources_) {
    if (source.stream == Stream::kChannel || !source.fd) {
      continue;
    }
    std::size_t left = available_bytes(source.fd);
    while (left > 0 && source.fd) {
      const std::uint64_t before = journal_.end_offset();
      read_once(source, left);
      const std::uint64_t got = journal_.end_offset() - before;
      if (got == 0) {
        break;
      }
      left -= static_cast<std::size_t>(got);
    }
  }
}

void Process::read_once(Source& source, std::size_t max_bytes) {
  const auto room = journal_.prepare();
  const std::size_t wanted =
      std::min({room.size(), max_bytes, source.drain_bytes.value_or(SIZE_MAX)});
  const ssize_t got = ::read(source.fd.get(), room.data(), wanted);
  if (got < 0 && (errno == EINTR || (errno == EAGAIN && !source.drain_bytes))) {
    return;
  }
  if (got > 0) {
    active_at_ms_ = monotonic_ms();
    journal_.commit(source.stream, static_cast<std::size_t>(got));
    if (source.drain_bytes) {
      *source.drain_bytes -= static_cast<std::size_t>(got);
      if (*source.drain_bytes == 0) {
        end_source(source, SourceEnd::kDrained);
      }
    }
  } else {
    // 0, or EIO from a terminal whose last user has gone: the end. EAGAIN while draining: that
    // was all there is.
    const bool drained = got < 0 && errno == EAGAIN;
    end_source(source, drained ? SourceEnd::kDrained : SourceEnd::kEndOfFile);
  }
}

void Process::end_source(Source& source, SourceEnd end) {
  source.watch.stop();
  if (end == SourceEnd::kDrained && source.stream != Stream::kPty && has_writer(source.fd)) {
    owner_.adopt_pipe(std::move(source.fd));
  }
  source.fd.reset();
}

void Process::begin_drain() {
  for (Source& source : sources_) {
    if (!source.fd) {
      continue;
    }
    if (source.stream == Stream::kPty) {
      // A terminal moves bytes between its buffers in the background; only reading tells.
      source.drain_bytes = kMaxTerminalDrainBytes;
    } else if (const std::size_t available = available_bytes(source.fd); available > 0) {
      source.drain_bytes = available;
    } else {
      end_source(source, SourceEnd::kDrained);
    }
  }
}

void Process::pump(Reader& reader) {
  if (starting_ || reader.gone) {
    return;
  }
  Connection& connection = *reader.connection;
  // Start, output and exit that are known together are told together.
  bool all = false;
  do {
    connection.cork();
    all = queue_for(reader);
    connection.uncork();
    // What the connection had enough of it may have sent by now, also if it took nothing this time:
    // only one that still has enough says later that there is room.
  } while (!all && connection.wants_output());
}

// False when it stopped because the connection had enough.
bool Process::queue_for(Reader& reader) {
  Connection& connection = *reader.connection;
  if (!reader.started_sent) {
    reader.started_sent = true;
    connection.send(Kind::kStarted, encode_number(info_.pid));
  }
  while (connection.wants_output()) {
    const auto piece = journal_.read(reader.cursor, kMaxPieceBytes);
    if (piece.bytes.empty()) {
      if (finished()) {
        connection.send(Kind::kExit, encode(info_.exit));
        connection.finish();
      }
      return true;
    }
    connection.send_output({piece.stream, piece.offset}, piece.bytes);
  }
  return false;
}

// Brings everything in line with the state: readers get what there is, the journal forgets what it
// may, and the pipes are read exactly when there is room.
void Process::settle() {
  std::uint64_t needed_from = UINT64_MAX;
  for (Reader& reader : readers_) {
    pump(reader);
    if (!reader.gone) {
      needed_from = std::min(needed_from, reader.cursor.offset);
      if (reader.contiguous) {
        read_offset_ = std::max(read_offset_, reader.cursor.offset);
      }
    }
  }
  const bool waits = waits_for_reader();
  journal_.trim(unread_matters_ ? std::min(needed_from, unread_from()) : needed_from);
  reading_ = !waits && (needed_from == UINT64_MAX ||
                        journal_.end_offset() - needed_from < kReaderWindowBytes);
  for (Source& source : sources_) {
    if (source.fd && reading_) {
      source.watch.want(EPOLLIN);
    } else {
      source.watch.pause();
    }
  }
  if (finished()) {
    terminal_.reset();
    journal_.pack();
    owner_.on_process_settled();
  }
}

bool Process::finished() const {
  return !starting_ && !info_.running &&
         std::none_of(sources_.begin(), sources_.end(),
                      [](const Source& source) { return static_cast<bool>(source.fd); });
}

}  // namespace atl::guest
