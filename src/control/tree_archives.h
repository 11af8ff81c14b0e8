// Trees of a sandbox as tar archives, both ways.
//
// The archive is read and written here, by an unprivileged process; the guest only ever sees
// entries, checks their paths again and writes beneath one directory without following a symlink
// (guest/file_tree_write.cpp). Nothing is kept on disk: bytes pass through, and what takes time
// (unpacking, compressing) happens on threads of a pool. Loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "control/files.h"
#include "io/offload.h"
#include "oci/archive_writer.h"

namespace atl::control {

// What a guest sent, for an archive.
Result<oci::ArchiveEntry> to_archive_entry(const guest::TreeEntry& from);

// The bytes of an archive as they are made; the tree is read as slowly as they are taken.
class ArchiveDownload {
 public:
  ArchiveDownload(io::OffloadPool& pool, std::unique_ptr<GuestChannel> channel,
                  oci::ArchiveFormat format)
      : pool_(pool), writer_(format), format_(format), channel_(std::move(channel)) {}
  virtual ~ArchiveDownload() = default;

  // The next bytes, empty at the end. What fails is no archive: it must not look like one that
  // has ended.
  virtual Task<std::string> next();

 protected:
  io::OffloadPool& pool_;
  oci::ArchiveWriter writer_;
  const oci::ArchiveFormat format_;

 private:
  struct Item {
    guest::Kind kind = guest::Kind::kEnd;
    std::string bytes;
  };
  // Takes one frame of the tree, checked.
  Task<Item> receive();
  Result<> write(const Item& item);
  Task<> write_batch(std::vector<Item> items);

  std::unique_ptr<GuestChannel> channel_;
  std::uint64_t left_ = 0;  // of the file at hand
  std::uint64_t entries_ = 0;
  bool ended_ = false;
};

struct UnpackRequest {
  std::string path;             // a directory; made when missing
  std::string user;             // whose rights count, and whose files they become unless root
  std::uint64_t max_bytes = 0;  // unpacked
};
struct Unpacked {
  guest::TreeDone done;
  std::uint64_t skipped = 0;  // devices, FIFOs
};

class TreeArchives {
 public:
  // How the archive arrives: reads some bytes, 0 at the end.
  using ReadBytes = std::function<Task<std::size_t>(std::span<char>)>;

  explicit TreeArchives(io::OffloadPool& pool) : pool_(pool) {}

  // A directory gives what is in it, a file itself. Fails before the first byte when the path
  // cannot be read at all.
  Task<std::unique_ptr<ArchiveDownload>> download(GuestClient client, guest::PathRequest request,
                                                  oci::ArchiveFormat format);
  // Plain or compressed, by its first bytes. What was written before a failure stays.
  Task<Unpacked> unpack(GuestClient client, UnpackRequest request, ReadBytes read);

  // The same for a place without a guest (place_archives.cpp): entry by entry over its files, which
  // the caller keeps. Links are skipped.
  Task<std::unique_ptr<ArchiveDownload>> download(Files& files, guest::PathRequest request,
                                                  oci::ArchiveFormat format);
  Task<Unpacked> unpack(Files& files, UnpackRequest request, ReadBytes read);

 private:
  io::OffloadPool& pool_;
};

}  // namespace atl::control
