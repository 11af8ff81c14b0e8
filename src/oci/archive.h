// Reading tar archives that anybody may have made: plain, gzip, zstd, xz or bzip2.
//
// libarchive does the decoding, here the result is made harmless: paths become relative and clean
// ("./a//b" and "/a/b" are "a/b"), one with ".." in it or beyond the bounds is refused; sizes,
// counts and the sum of all unpacked bytes are bounded, so a bomb ends early; devices,
// sockets and mostly FIFOs are marked as skipped. Nothing is ever written to a path from an
// archive. Blocking.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "oci/limits.h"

namespace atl::oci {

enum class EntryType : std::uint8_t { kFile, kDirectory, kSymlink, kHardlink, kFifo, kSkipped };

struct ArchiveAttribute {  // extended
  std::string name;
  std::string value;
  bool operator==(const ArchiveAttribute&) const = default;
};

struct ArchiveEntry {
  std::string path;  // empty: the root itself
  EntryType type = EntryType::kFile;
  std::uint32_t mode = 0644;  // permission bits
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int64_t modified_unix_ns = 0;
  std::uint64_t size = 0;
  std::string link_target;  // of a symlink as it is; of a hard link a path like above
  std::vector<ArchiveAttribute> attributes;
};

// "./a//b/" -> "a/b"; kInvalidArgument with reason path_escapes for "..", and for what is too long.
Result<std::string> clean_path(std::string_view path);

struct ArchiveLimits {
  std::uint64_t entries = kMaxEntries;
  std::uint64_t unpacked_bytes = kMaxUnpackedBytes;
  // Owners beyond what a sandbox has become kNobody instead of an error.
  bool any_owner = false;
  // FIFOs are not skipped, and extended attributes that a sandbox may have are kept.
  bool whole = false;
};
inline constexpr std::uint32_t kNobody = UINT32_MAX;

// Bytes that come from somewhere else, in order. Blocks.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Valid until the next call; empty at the end.
  virtual Result<std::string_view> next() = 0;
};

// A piece of a file as the bytes of an archive, or a stream.
struct ArchiveSource {
  int fd = -1;                   // borrowed; read with pread
  ByteSource* stream = nullptr;  // borrowed; instead of the file
  std::uint64_t offset = 0;
  std::uint64_t length = UINT64_MAX;
  std::string sha256;  // hexadecimal, of all bytes; checked by finish() when not empty
};

class ArchiveReader {
 public:
  static Result<std::unique_ptr<ArchiveReader>> open(ArchiveSource source, ArchiveLimits limits);
  ~ArchiveReader();
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  // The next entry; nullopt at the end. Unread data of the one before is skipped.
  Result<std::optional<ArchiveEntry>> next();
  // The next bytes of the file at hand; 0 after exactly `size` of them.
  Result<std::size_t> read(std::span<char> buffer);
  // Reads what is left of the source and checks its digest. REQUIRES: next() came to the end.
  Result<> finish();
  std::uint64_t unpacked_bytes() const;

 private:
  struct Impl;
  explicit ArchiveReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace atl::oci
