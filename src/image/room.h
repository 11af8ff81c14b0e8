// Where template trees come from: a Debian bootstrap cached as an archive outside the checkout.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::image {

// One line of progress for a person: "installing packages", fraction 0..1 or negative if unknown.
using Progress = std::function<void(std::string_view step, double fraction)>;

struct BuiltinTemplate {
  std::string name;     // "default"
  std::string version;  // changes whenever the recipe does; part of layer id and cache file name
};
BuiltinTemplate default_template();
// All of them, `default` first.
std::vector<BuiltinTemplate> builtin_templates();

// The layer id of a builtin: "default-<version>".
std::string layer_id(const BuiltinTemplate& builtin);
// The cache file, if this cache has a complete one.
Result<std::string> find_cached(const BuiltinTemplate& builtin, const std::string& cache_dir);
// Builds it with mmdebstrap and the host's apt sources into the cache (atomically); returns the
// file.
Result<std::string> build(const BuiltinTemplate& builtin, const std::string& cache_dir,
                          const Progress& progress);
// Unpacks a cached archive into an empty directory, keeping owners, modes, links and xattrs.
Result<> unpack(const std::string& archive, const std::string& directory, const Progress& progress);
// $ATOLL_CACHE_DIR, else /var/cache/atoll.
std::string default_cache_dir();

}  // namespace atl::image
