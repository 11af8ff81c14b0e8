// A stack of trees as an OCI archive: a tar of an image layout, written while it is made.
//
// Each tree of the stack becomes one layer: what the stack from it downwards has beyond what is
// below it. A blob is named by its digest, which is known when it is whole, so each layer is made
// in a file of ours first, one at a time, then sent and removed; configuration, manifest and index
// follow, in an order that every reader of such archives takes. Nothing in it tells the time of the
// export: the same trees give the same bytes. Loop thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "control/diff_stream.h"
#include "control/scratch.h"
#include "oci/image_writer.h"

namespace atl::control {

class ImageExport {
 public:
  struct Parts {
    io::Reactor& reactor;
    io::OffloadPool& pool;
    Scratch& scratch;
    std::string team_id;
    std::string directory;                                     // for a layer on its way
    oci::ArchiveFormat format = oci::ArchiveFormat::kTarGzip;  // of the layers
    oci::ImageConfig config;
  };
  using Write = std::function<Task<>(std::string_view bytes)>;

  explicit ImageExport(Parts parts) : parts_(std::move(parts)), output_(oci::ArchiveFormat::kTar) {}

  // `trees` are directories of the guest, topmost first.
  Task<> run(std::string guest_socket, std::vector<std::string> trees, const Write& write);

 private:
  Task<oci::LayerSummary> make_layer(std::string guest_socket, guest::DiffRequest request,
                                     oci::LayerFile& file, Scratch::Lease& lease);
  Task<> send_layer(oci::LayerFile& file, const oci::LayerSummary& layer, const Write& write);
  Task<> send_text(std::string path, std::string text, const Write& write);
  Task<> send_rest(const Write& write);

  Parts parts_;
  oci::ArchiveWriter output_;
  std::vector<oci::LayerSummary> layers_;  // lowest first
};

}  // namespace atl::control
