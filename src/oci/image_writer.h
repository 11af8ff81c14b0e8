// Writing OCI images: a layer as a file with its digests, and the three small texts around it.
//
// The texts are made so that the same layers always give the same bytes, and with them the same
// digests. Blocking.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "oci/archive_writer.h"
#include "oci/digest.h"
#include "oci/image.h"

namespace atl::oci {

struct LayerSummary {
  std::string sha256;   // of the blob
  std::string diff_id;  // of the tar in it
  std::uint64_t size = 0;
};

// A layer on its way: a tar goes in, a blob comes out. The file has no name.
class LayerFile {
 public:
  // `format` says how the blob is compressed.
  static Result<std::unique_ptr<LayerFile>> make(const std::string& directory,
                                                 ArchiveFormat format);
  ~LayerFile();
  LayerFile(const LayerFile&) = delete;
  LayerFile& operator=(const LayerFile&) = delete;

  Result<> write(std::string_view tar_bytes);
  Result<LayerSummary> finish();
  // Of the blob, so far.
  std::uint64_t size() const;
  Result<std::string> read(std::uint64_t offset, std::size_t max_bytes) const;

 private:
  struct Impl;
  explicit LayerFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

std::string sha256_of(std::string_view bytes);
std::string layout_text();
// `layers` lowest first.
std::string config_text(const ImageConfig& config, const std::vector<LayerSummary>& layers);
std::string manifest_text(std::string_view config, const std::vector<LayerSummary>& layers,
                          ArchiveFormat format);
std::string index_text(std::string_view manifest);

}  // namespace atl::oci
