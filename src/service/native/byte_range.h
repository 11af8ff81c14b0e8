// "Range: bytes=..." of one range, as RFC 9110 has it. Several ranges, or another unit, count as no
// range at all, which a server may always do.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace atl::service::native {

struct ByteRange {
  std::optional<std::uint64_t> first;  // absent: the last `last` bytes
  std::optional<std::uint64_t> last;   // inclusive; absent: to the end
};
std::optional<ByteRange> parse_byte_range(std::string_view header);

struct Slice {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};
// What the range means for a file of this size; kOutOfRange (range_not_satisfiable) when nothing.
Result<Slice> resolve_range(const ByteRange& range, std::uint64_t size);

}  // namespace atl::service::native
