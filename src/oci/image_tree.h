// All layers of an image as the one tree that they mean together.
//
// A first pass over the layers checks their digests and bounds and decides, lowest layer first,
// which entry each path comes from: an upper entry replaces a lower one, ".wh.x" removes x,
// ".wh..wh..opq" empties its directory of what is below, and a path that leads through a symlink of
// a lower layer means the place it points to (inside the image). The second pass gives out exactly
// the entries that are left, each path once, so the receiver never has to remove anything. Of hard
// links the first name that is left becomes the file. Contents of /dev, /proc and /sys are dropped,
// and so are devices.
#pragma once

#include <memory>
#include <vector>

#include "oci/image.h"
#include "oci/tree.h"

namespace atl::oci {

struct ImageTreeLimits {
  std::uint64_t unpacked_bytes = kMaxUnpackedBytes;
  std::uint64_t entries = kMaxEntries;
};

// The first pass; it reads every layer whole.
Result<std::unique_ptr<TreeSource>> open_image_tree(const std::vector<LayerBlob>& layers,
                                                    ImageTreeLimits limits);

}  // namespace atl::oci
