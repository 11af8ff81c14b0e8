// Writing tar archives (pax, so that every name, size and time fits), plain, gzip or zstd, into
// memory.
//
// What was written is taken out piece by piece; nothing more than one piece is kept. Compressing
// takes time, so a gzip writer belongs on a thread of a pool. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "oci/archive.h"

namespace atl::oci {

enum class ArchiveFormat : std::uint8_t { kTar, kTarGzip, kTarZstd };

class ArchiveWriter {
 public:
  explicit ArchiveWriter(ArchiveFormat format);
  ~ArchiveWriter();
  ArchiveWriter(const ArchiveWriter&) = delete;
  ArchiveWriter& operator=(const ArchiveWriter&) = delete;

  // The next entry. REQUIRES: the file before has got all its bytes.
  Result<> begin(const ArchiveEntry& entry);
  Result<> write(std::string_view bytes);
  Result<> finish();

  std::size_t pending_bytes() const;
  // What has been written since the last call.
  std::string take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace atl::oci
