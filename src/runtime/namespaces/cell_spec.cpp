#include "runtime/namespaces/cell_spec.h"

#include <algorithm>

#include "base/strings.h"
#include "runtime/namespaces/cell_plan.h"
#include "runtime/namespaces/id_map.h"

namespace atl::runtime::namespaces {
namespace {

constexpr std::uint64_t kLeastMemoryBytes = 4U << 20;
constexpr std::uint32_t kLeastCpuMillis = 10;  // the kernel's least quota is a millisecond
constexpr std::uint32_t kMostCpuMillis = 1'000'000;
constexpr std::size_t kMaxPathBytes = 4000;

bool is_dns_label(std::string_view text) {
  return is_name(to_lower(text), 63, true) && text.front() != '-' && text.back() != '-';
}

Result<> check_mounts(const CellSpec& spec) {
  if (spec.mounts.size() > kMaxVolumeMounts || (spec.mount_is_root && spec.mounts.empty())) {
    return fail(Code::kInvalidArgument,
                concat("a cell has at most ", kMaxVolumeMounts, " volumes"));
  }
  for (const VolumeMount& mount : spec.mounts) {
    TRY_DO(check_path(mount.source_dir));
    TRY_DO(check_path(mount.target));
  }
  return {};
}

}  // namespace

bool is_name(std::string_view text, std::size_t max_size, bool with_dash) {
  return !text.empty() && text.size() <= max_size && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (with_dash && c == '-');
  });
}

Result<> check_id(const std::string& id) {
  if (!is_name(id, 63, true)) {
    return fail(Code::kInvalidArgument, "a cell id is 1 to 63 of a-z, 0-9 and -");
  }
  return {};
}

Result<> check_path(const std::string& path) {
  if (path.empty() || path[0] != '/' || path.size() > kMaxPathBytes || path.contains('\0')) {
    return fail(Code::kInvalidArgument, "a cell's directories and socket are absolute paths");
  }
  return {};
}

Result<> check_limits(const Limits& limits) {
  if (limits.memory_bytes != 0 && limits.memory_bytes < kLeastMemoryBytes) {
    return fail(Code::kInvalidArgument,
                concat("a memory limit is at least ", format_quantity(kLeastMemoryBytes)));
  }
  if (limits.cpu_millis != 0 &&
      (limits.cpu_millis < kLeastCpuMillis || limits.cpu_millis > kMostCpuMillis)) {
    return fail(Code::kInvalidArgument, concat("a cpu limit is between ", kLeastCpuMillis, " and ",
                                               kMostCpuMillis, " thousandths of a core"));
  }
  return {};
}

Result<> check_spec(const CellSpec& spec) {
  TRY_DO(check_id(spec.id));
  if (!is_dns_label(spec.hostname)) {
    return fail(Code::kInvalidArgument, "a host name is 1 to 63 letters, digits and inner dashes");
  }
  if (spec.lower_dirs.empty() || spec.lower_dirs.size() > kMaxLayers) {
    return fail(Code::kInvalidArgument, concat("a cell has 1 to ", kMaxLayers, " layers"));
  }
  for (const std::string& directory : spec.lower_dirs) {
    TRY_DO(check_path(directory));
  }
  TRY_DO(check_path(spec.upper_dir));
  TRY_DO(check_mounts(spec));
  if (spec.view_dirs.size() > kMaxViews) {
    return fail(Code::kInvalidArgument, concat("a cell has at most ", kMaxViews, " views"));
  }
  for (const std::string& directory : spec.view_dirs) {
    TRY_DO(check_path(directory));
  }
  TRY_DO(check_id_base(spec.uid_base));
  TRY_DO(check_path(spec.guest_socket));
  if (!spec.from_dump.empty()) {
    TRY_DO(check_path(spec.from_dump));
  }
  return check_limits(spec.limits);
}

}  // namespace atl::runtime::namespaces
