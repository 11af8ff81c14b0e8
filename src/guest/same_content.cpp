// Files of two snapshots mostly share their blocks, and blocks of one filesystem that lie in the
// same place are the same bytes: so the maps of the blocks are compared first. A map proves only
// equality, and only where it tells real places (not of blocks that are compressed, packed into
// metadata or not written yet); whatever it does not prove is read. Holes of both are skipped, so a
// file costs what is in it and not what it claims to be.
#include "guest/same_content.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "guest/files.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

constexpr std::size_t kExtentsAtOnce = 128;
constexpr std::uint32_t kNoRealPlace = FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC |
                                       FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_DATA_ENCRYPTED |
                                       FIEMAP_EXTENT_NOT_ALIGNED | FIEMAP_EXTENT_DATA_INLINE |
                                       FIEMAP_EXTENT_DATA_TAIL;
constexpr std::uint32_t kTold = ~(FIEMAP_EXTENT_SHARED | FIEMAP_EXTENT_LAST);

class BlockMap {
 public:
  // The extents from `start` on; false: the filesystem does not say.
  bool read(int fd, std::uint64_t start) {
    storage_.fill({});
    auto* map = header();
    map->fm_start = start;
    map->fm_length = FIEMAP_MAX_OFFSET - start;
    map->fm_extent_count = kExtentsAtOnce;
    return ::ioctl(fd, FS_IOC_FIEMAP, map) == 0 && map->fm_mapped_extents <= kExtentsAtOnce;
  }
  std::size_t count() { return header()->fm_mapped_extents; }
  const fiemap_extent& at(std::size_t index) { return header()->fm_extents[index]; }

 private:
  struct fiemap* header() { return reinterpret_cast<struct fiemap*>(storage_.data()); }
  struct alignas(8) Word {
    std::uint64_t value = 0;
  };
  std::array<Word, (sizeof(struct fiemap) + kExtentsAtOnce * sizeof(fiemap_extent)) / 8> storage_{};
};

bool share_all_blocks(int one, int other) {
  BlockMap left;
  BlockMap right;
  for (std::uint64_t start = 0;;) {
    if (!left.read(one, start) || !right.read(other, start) || left.count() != right.count()) {
      return false;
    }
    if (left.count() == 0) {
      return true;
    }
    for (std::size_t i = 0; i < left.count(); ++i) {
      const fiemap_extent& a = left.at(i);
      const fiemap_extent& b = right.at(i);
      if (a.fe_logical != b.fe_logical || a.fe_physical != b.fe_physical ||
          a.fe_length != b.fe_length || (a.fe_flags & kTold) != (b.fe_flags & kTold) ||
          (a.fe_flags & kNoRealPlace) != 0 || a.fe_length == 0) {
        return false;
      }
    }
    const fiemap_extent& last = left.at(left.count() - 1);
    if ((last.fe_flags & FIEMAP_EXTENT_LAST) != 0) {
      return true;
    }
    start = last.fe_logical + last.fe_length;
  }
}

// Where the next bytes are that may not be zero.
std::uint64_t next_data(int fd, std::uint64_t from, std::uint64_t size) {
  const off_t at = ::lseek(fd, static_cast<off_t>(from), SEEK_DATA);
  if (at < 0) {
    return errno == ENXIO ? size : from;
  }
  return std::min(static_cast<std::uint64_t>(at), size);
}

Result<> read_at(int fd, char* buffer, std::size_t size, std::uint64_t offset,
                 const std::string& path) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t got = ::pread(fd, buffer + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return fail_file("reading", path);
    }
    if (got == 0) {
      return fail(file_error("reading", path, EIO));  // it was to stay as it is
    }
    done += static_cast<std::size_t>(got);
  }
  return {};
}

}  // namespace

Result<bool> same_content(int one, int other, std::uint64_t size, const std::string& path,
                          const std::function<Result<>()>& breathe) {
  if (size == 0 || share_all_blocks(one, other)) {
    return true;
  }
  std::vector<char> left(kMaxFilePieceBytes);
  std::vector<char> right(kMaxFilePieceBytes);
  for (std::uint64_t at = 0; at < size;) {
    at = std::min(next_data(one, at, size), next_data(other, at, size));
    const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(size - at, left.size()));
    TRY_DO(read_at(one, left.data(), piece, at, path));
    TRY_DO(read_at(other, right.data(), piece, at, path));
    if (std::memcmp(left.data(), right.data(), piece) != 0) {
      return false;
    }
    at += piece;
    TRY_DO(breathe());
  }
  return true;
}

}  // namespace atl::guest
