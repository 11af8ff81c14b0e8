#include "node/templates.h"

#include "base/log.h"

namespace atl::node {
namespace {

Result<std::string> find_or_build(const image::BuiltinTemplate& builtin,
                                  const std::string& cache_dir, const image::Progress& progress) {
  auto cached = image::find_cached(builtin, cache_dir);
  if (cached) {
    return cached;
  }
  LOG_INFO("building a template, this takes some minutes once", {"template", builtin.name},
           {"cache", cache_dir}, {"because", cached.error()});
  return image::build(builtin, cache_dir, progress);
}

}  // namespace

Result<std::vector<TemplateInfo>> seed_templates(layers::Pool& pool, const std::string& cache_dir,
                                                 const image::Progress& progress) {
  const image::BuiltinTemplate builtin = image::default_template();
  const std::string layer = image::layer_id(builtin);
  if (!pool.has_layer(layer)) {
    TRY(const std::string archive, find_or_build(builtin, cache_dir, progress));
    TRY_DO(pool.add_layer(layer, [&](const std::string& directory) {
      return image::unpack(archive, directory, progress);
    }));
    LOG_INFO("template is in place", {"template", builtin.name}, {"layer", layer});
  }
  return std::vector{TemplateInfo{builtin.name, {layer}}};
}

}  // namespace atl::node
