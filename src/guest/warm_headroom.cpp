#include "guest/warm_headroom.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/strings.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} * 1024;

struct MemoryFiles {
  const char* limit;
  const char* used;
  const char* statistics;
  std::string_view reclaimable;  // the key of what is taken back first
};
constexpr MemoryFiles kUnified{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
                               "/sys/fs/cgroup/memory.stat", "inactive_file "};
constexpr MemoryFiles kLegacy{"/sys/fs/cgroup/memory/memory.limit_in_bytes",
                              "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                              "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file "};

// None: no such file, or no limit.
std::optional<std::uint64_t> number_in(const char* path) {
  const auto text = read_file(path, kMaxFileBytes);
  const auto number = text ? parse_u64(text->substr(0, text->find('\n'))) : std::nullopt;
  return number;
}

bool fits(const MemoryFiles& files, std::uint64_t bytes) {
  const auto limit = number_in(files.limit);
  const auto used = number_in(files.used);
  if (!limit || !used) {
    return true;
  }
  const auto statistics = read_file(files.statistics, kMaxFileBytes);
  const auto back = numbers_of(statistics ? *statistics : "", files.reclaimable);
  const std::uint64_t kept = *used - std::min(*used, back.empty() ? 0 : back[0]);
  return kept <= *limit && bytes <= *limit - kept;
}

}  // namespace

std::vector<std::uint64_t> numbers_of(std::string_view status, std::string_view key) {
  std::vector<std::uint64_t> numbers;
  for (const std::string_view line : split(status, '\n')) {
    if (!line.starts_with(key)) {
      continue;
    }
    std::string plain{line.substr(key.size())};
    std::ranges::replace(plain, '\t', ' ');
    for (const std::string_view word : split(plain, ' ')) {
      if (const auto number = parse_u64(word); number) {
        numbers.push_back(*number);
      }
    }
  }
  return numbers;
}

bool has_headroom(std::uint64_t bytes) {
  constexpr std::uint64_t kKibibyte = 1024;
  const std::uint64_t wanted = bytes + kOwningReserveBytes;
  const auto machine = read_file("/proc/meminfo", kMaxFileBytes);
  const auto available = numbers_of(machine ? *machine : "", "MemAvailable:");
  return (available.empty() || wanted / kKibibyte <= available[0]) && fits(kUnified, wanted) &&
         fits(kLegacy, wanted);
}

}  // namespace atl::guest
