#include "daemon/criu_adapter.h"

#include <filesystem>

namespace atl::daemon {

std::string find_criu_adapter() {
  std::error_code error;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto adapter = executable.parent_path() / "libatoll-criu.so";
  return std::filesystem::exists(adapter, error) ? adapter.string() : std::string{};
}

}  // namespace atl::daemon
