// The changes between two roots as a guest tells them, and the same as an archive.
//
// The guest compares in a cell of its own (guest/file_diff.cpp); what it says is checked here like
// anything from a guest. The archive is a layer as OCI images have them: what was added or changed,
// and an empty file ".wh.<name>" for each name that was removed. Sockets have no place in one; a
// name that would itself be read as such a mark makes the archive fail instead of meaning something
// else. Nothing is kept but what is under way. Loop thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "control/guest_channel.h"
#include "io/offload.h"
#include "oci/archive_writer.h"

namespace atl::control {

class DiffStream {
 public:
  static Task<std::unique_ptr<DiffStream>> open(io::Reactor& reactor, std::string guest_socket,
                                                guest::DiffRequest request);
  DiffStream(std::unique_ptr<GuestChannel> channel, bool contents)
      : channel_(std::move(channel)), contents_(contents) {}

  struct Item {
    guest::Kind kind = guest::Kind::kEnd;  // kChange, kData (of the change before), kEnd
    guest::Change change;
    std::string bytes;
  };
  Task<Item> next();

 private:
  std::unique_ptr<GuestChannel> channel_;
  const bool contents_;
  std::uint64_t left_ = 0;  // of the file at hand
  std::uint64_t total_ = 0;
  std::uint64_t changes_ = 0;
};

class DiffArchive {
 public:
  DiffArchive(io::OffloadPool& pool, std::unique_ptr<DiffStream> stream, oci::ArchiveFormat format)
      : pool_(pool), stream_(std::move(stream)), writer_(format), format_(format) {}

  // The next bytes, empty at the end.
  Task<std::string> next();

 private:
  Result<> write(const DiffStream::Item& item);
  Result<> write_change(const guest::Change& change);

  io::OffloadPool& pool_;
  std::unique_ptr<DiffStream> stream_;
  oci::ArchiveWriter writer_;
  const oci::ArchiveFormat format_;
  bool ended_ = false;
};

// What a removed path is in a layer: "a/b" -> "a/.wh.b".
Result<std::string> whiteout_path(std::string_view path);

}  // namespace atl::control
