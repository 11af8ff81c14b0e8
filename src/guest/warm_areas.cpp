#include "guest/warm_areas.h"

#include <sys/mman.h>
#include <sys/sysmacros.h>

#include <array>
#include <cstdio>

#include "base/fd.h"
#include "base/strings.h"

namespace atl::guest {
namespace {

constexpr std::size_t kMaxMapsBytes = 4U << 20;

// "start-end rwxp offset major:minor inode   name"
Result<Area> parse_area(const std::string& line) {
  Area area;
  std::array<char, 5> flags{};
  unsigned major_number = 0;
  unsigned minor_number = 0;
  int name_at = 0;
  unsigned long long start = 0;
  unsigned long long end = 0;
  unsigned long long offset = 0;
  unsigned long long inode = 0;
  if (std::sscanf(line.c_str(), "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, flags.data(),
                  &offset, &major_number, &minor_number, &inode, &name_at) < 7) {
    return fail(Code::kInternal, "/proc/pid/maps is not what it should be");
  }
  area.start = start;
  area.end = end;
  area.offset = offset;
  area.inode = inode;
  area.device = ::makedev(major_number, minor_number);
  area.protection = static_cast<std::uint32_t>((flags[0] == 'r' ? PROT_READ : 0) |
                                               (flags[1] == 'w' ? PROT_WRITE : 0) |
                                               (flags[2] == 'x' ? PROT_EXEC : 0));
  area.shared = flags[3] == 's';
  area.name = line.substr(static_cast<std::size_t>(name_at));
  return area;
}

}  // namespace

Result<std::vector<Area>> read_areas(pid_t pid) {
  TRY(const auto text, read_file(concat("/proc/", pid, "/maps"), kMaxMapsBytes));
  std::vector<Area> areas;
  for (const auto line : split(text, '\n')) {
    if (!line.empty()) {
      TRY(auto area, parse_area(std::string{line}));
      areas.push_back(std::move(area));
    }
  }
  return areas;
}

}  // namespace atl::guest
