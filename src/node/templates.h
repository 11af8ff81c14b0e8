// The builtin templates as layers in the pool: unpacked from the cache, built when it has none.
#pragma once

#include <string>
#include <vector>

#include "image/room.h"
#include "layers/room.h"
#include "node/protocol.h"

namespace atl::node {

Result<std::vector<TemplateInfo>> seed_templates(layers::Pool& pool, const std::string& cache_dir,
                                                 const image::Progress& progress);

}  // namespace atl::node
