#include "control/resources.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/strings.h"

namespace atl::control {
namespace {

Result<std::uint64_t> decide_bytes(std::string_view field, const std::optional<std::string>& text,
                                   std::uint64_t otherwise, std::uint64_t least,
                                   std::uint64_t most) {
  if (!text) {
    return std::clamp(otherwise, least, most);
  }
  const auto bytes = parse_quantity(*text);
  if (!bytes || *bytes < least || *bytes > most) {
    return fail(Code::kInvalidArgument,
                concat("config.resources.", field, " is \"", *text, "\"; use a quantity from ",
                       format_quantity(least), " to ", format_quantity(most)));
  }
  return *bytes;
}

}  // namespace

ResourcePolicy host_resource_policy() {
  ResourcePolicy policy;
  const long cores = std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
  policy.default_cpu_millis = static_cast<std::uint32_t>(std::min(cores, 1024L) * 1000);
  policy.max_cpu_millis = policy.default_cpu_millis;
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) {
    const auto memory = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
    policy.max_memory_bytes = std::max(policy.max_memory_bytes, memory >> 20 << 20);
  }
  return policy;
}

std::optional<std::uint32_t> parse_cpu_millis(std::string_view text) {
  const bool in_millis = text.ends_with('m');
  if (in_millis) {
    text.remove_suffix(1);
  }
  // Digits with at most one point; from_chars alone would also take "1e9" and "inf".
  if (text.empty() || text.find_first_not_of("0123456789.") != std::string_view::npos) {
    return std::nullopt;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const double millis = in_millis ? value : value * 1000;
  if (error != std::errc{} || end != text.data() + text.size() || millis > 1e9) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(millis + 0.5);
}

std::string format_cpu_millis(std::uint32_t millis) {
  return millis % 1000 == 0 ? concat(millis / 1000) : concat(millis, "m");
}

Result<store::Limits> decide_limits(const ResourcePolicy& policy, const ResourceRequest& request) {
  store::Limits limits;
  TRY(limits.memory_bytes, decide_bytes("memory", request.memory, policy.default_memory_bytes,
                                        policy.min_memory_bytes, policy.max_memory_bytes));
  TRY(limits.disk_bytes, decide_bytes("disk", request.disk, policy.default_disk_bytes,
                                      policy.min_disk_bytes, policy.max_disk_bytes));
  limits.cpu_millis = policy.default_cpu_millis;
  if (request.cpu) {
    const auto millis = parse_cpu_millis(*request.cpu);
    if (!millis || *millis < policy.min_cpu_millis || *millis > policy.max_cpu_millis) {
      return fail(Code::kInvalidArgument,
                  concat("config.resources.cpu is \"", *request.cpu, "\"; use cores from ",
                         format_cpu_millis(policy.min_cpu_millis), " to ",
                         format_cpu_millis(policy.max_cpu_millis)));
    }
    limits.cpu_millis = *millis;
  }
  limits.process_count = policy.process_count;
  return limits;
}

}  // namespace atl::control
