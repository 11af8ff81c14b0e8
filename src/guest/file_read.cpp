// Reading: stat, list, content.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>

#include "base/plain_file.h"
#include "base/strings.h"
#include "guest/files.h"
#include "guest/limits.h"
#include "guest/wire_passing.h"

namespace atl::guest {

Result<> stat_file(FileChannel& channel, const PathRequest& request) {
  const std::string path = clean_path(request.path);
  TRY(auto info, describe(AT_FDCWD, path, path));
  if (request.details) {
    AccountNames names;
    info.details = find_details(info, names);
  }
  return channel.send(Kind::kFile, encode(info));
}

namespace {

// A directory and, as far down as was asked for, what is in its directories. Symlinks below are
// entries, not ways.
class Listing {
 public:
  Listing(FileChannel& channel, const PathRequest& request) : channel_(channel) {
    if (request.details) {
      names_.emplace();
    }
  }

  Result<> send(const std::string& path, int flags, std::uint32_t depth) {
    Fd fd{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | flags)};
    if (!fd) {
      return fail_file("listing", path);
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> directory{::fdopendir(fd.get()), ::closedir};
    if (!directory) {
      return fail_file("listing", path);
    }
    fd.release();
    const std::string prefix = path == "/" ? path : path + "/";
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(directory.get());
      if (entry == nullptr) {
        return errno != 0 ? Result<>{fail_file("listing", path)} : Result<>{};
      }
      const std::string name = entry->d_name;
      if (name != "." && name != "..") {
        TRY_DO(send_entry(::dirfd(directory.get()), name, prefix + name, depth));
      }
    }
  }

 private:
  Result<> send_entry(int directory, const std::string& name, const std::string& path,
                      std::uint32_t depth) {
    auto info = describe(directory, name, path);
    if (!info) {  // removed since?
      return info.error().reason == "file_not_found" ? Result<>{}
                                                     : Result<>{fail(std::move(info).error())};
    }
    if (names_) {
      info->details = find_details(*info, *names_);
    }
    TRY_DO(channel_.send(Kind::kFile, encode(*info)));
    if (depth <= 1 || info->type != FileType::kDirectory || path.size() > kMaxPathBytes) {
      return {};
    }
    auto below = send(path, O_NOFOLLOW, depth - 1);
    // What went away, or may not be looked into, has nothing to show; a client that went away ends
    // it all.
    const bool hidden = !below && (below.error().reason == "file_not_found" ||
                                   below.error().reason == "path_not_directory" ||
                                   below.error().reason == "permission_denied");
    return hidden ? Result<>{} : below;
  }

  FileChannel& channel_;
  std::optional<AccountNames> names_;
};

}  // namespace

Result<> list_directory(FileChannel& channel, const PathRequest& request) {
  Listing listing{channel, request};
  TRY_DO(listing.send(clean_path(request.path), 0, request.depth));
  return channel.send(Kind::kEnd);
}

namespace {

// The descriptor goes along, and with it the reading. We stay until nobody reads any more.
Result<> pass_file(FileChannel& channel, const FileInfo& info, int file) {
  TRY_DO(channel.send_with_descriptor(Kind::kFile, encode(info), file));
  while (channel.receive()) {
  }
  return {};
}

// Enough for the file and one look behind it: every page has to be made for this process.
std::size_t room_for(std::uint64_t size) {
  constexpr std::uint64_t kLeastBytes = 4096;  // it may grow
  constexpr std::uint64_t kUnknownBytes = 4 * kLeastBytes;
  const std::uint64_t wanted = size == 0 ? kUnknownBytes : size;
  return static_cast<std::size_t>(
      std::clamp<std::uint64_t>(wanted, kLeastBytes - 1, kMaxFilePieceBytes - 1) + 1);
}

bool is_worth_passing(const ReadFileRequest& request, const struct stat& status, int file) {
  const auto size = static_cast<std::uint64_t>(status.st_size);
  return wants_passing(request.length) && request.offset < size &&
         std::min(without_passing(request.length), size - request.offset) >= kLeastPassedBytes &&
         check_plain_file(file);
}

}  // namespace

Result<> read_file(FileChannel& channel, const ReadFileRequest& request) {
  const std::string path = clean_path(request.path);
  // O_NONBLOCK: opening a FIFO or a device must not wait.
  const Fd fd{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
  if (!fd) {
    if (errno == ENXIO) {  // a socket
      return fail(Code::kFailedPrecondition, concat(path, " is not a regular file"),
                  "path_not_file");
    }
    return fail_file("reading", path);
  }
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) {
    return fail_file("reading", path);
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(
        Code::kFailedPrecondition,
        concat(path, S_ISDIR(status.st_mode) ? " is a directory" : " is not a regular file"),
        "path_not_file");
  }
  if (request.offset > static_cast<std::uint64_t>(INT64_MAX) ||
      (request.offset > 0 && ::lseek(fd.get(), static_cast<off_t>(request.offset), SEEK_SET) < 0)) {
    return fail(Code::kOutOfRange, concat("offset ", request.offset, " is out of range"),
                "bad_offset");
  }
  const FileInfo info = make_file_info(split_path(path).name, path, status);
  if (is_worth_passing(request, status, fd.get())) {
    auto passed = pass_file(channel, info, fd.get());
    if (passed || passed.error().reason != FileChannel::kNotPassed) {
      return passed;
    }
  }
  if (info.size >= kMaxFilePieceBytes) {
    channel.expect_much();
  }
  TRY_DO(channel.send(Kind::kFile, encode(info)));
  // By what the file gives, not by its size: files in /proc have none.
  std::uint64_t left = without_passing(request.length);
  const std::size_t room = room_for(info.size);
  const std::unique_ptr<char[]> buffer{new char[room]};
  while (left > 0) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(left, room));
    const ssize_t got = ::read(fd.get(), buffer.get(), wanted);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return fail_file("reading", path);
    }
    if (got == 0) {
      break;
    }
    const auto size = static_cast<std::size_t>(got);
    TRY_DO(channel.send(Kind::kData, {buffer.get(), size}));
    left -= size;
  }
  return channel.send(Kind::kEnd);
}

}  // namespace atl::guest
