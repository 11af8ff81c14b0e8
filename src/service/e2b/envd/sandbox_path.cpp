#include "service/e2b/envd/sandbox_path.h"

#include "base/strings.h"
#include "control/template_spec.h"
#include "service/native/file_target.h"

namespace atl::service::e2b::envd {

std::string clean_path(std::string_view path) {
  std::string clean = native::absolute_path(path, {});
  while (clean.size() > 1 && clean.ends_with('/')) {
    clean.pop_back();
  }
  return clean;
}

std::string guest_path(std::string_view path, std::string_view directory) {
  if (path.empty()) {
    return directory.empty() ? "~" : std::string{directory};
  }
  if (path.starts_with('/')) {
    return clean_path(path);
  }
  return path == "~" || path.starts_with("~/") ? std::string{path} : concat("~/", path);
}

std::string process_directory(std::string_view cwd, std::string_view template_directory) {
  const bool own = template_directory == control::kPlatformDirectory || template_directory == "/";
  return guest_path(cwd, own ? std::string_view{} : template_directory);
}

}  // namespace atl::service::e2b::envd
