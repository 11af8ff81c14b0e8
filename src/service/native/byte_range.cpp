#include "service/native/byte_range.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::service::native {

std::optional<ByteRange> parse_byte_range(std::string_view header) {
  constexpr std::string_view kUnit = "bytes=";
  if (!header.starts_with(kUnit)) {
    return std::nullopt;
  }
  header.remove_prefix(kUnit.size());
  const auto dash = header.find('-');
  if (dash == std::string_view::npos) {
    return std::nullopt;
  }
  const auto before = trim(header.substr(0, dash));
  const auto after = trim(header.substr(dash + 1));
  ByteRange range;
  if (!before.empty()) {
    range.first = parse_u64(before);
  }
  if (!after.empty()) {
    range.last = parse_u64(after);
  }
  const bool malformed = (!before.empty() && !range.first) || (!after.empty() && !range.last) ||
                         (before.empty() && after.empty()) ||
                         (range.first && range.last && *range.first > *range.last);
  return malformed ? std::nullopt : std::optional{range};
}

Result<Slice> resolve_range(const ByteRange& range, std::uint64_t size) {
  const auto unsatisfiable = [size] {
    return fail(Code::kOutOfRange,
                concat("the range is outside the file, which has ", size, " bytes"),
                "range_not_satisfiable");
  };
  if (!range.first) {
    const std::uint64_t length = std::min(*range.last, size);
    if (length == 0) {
      return unsatisfiable();
    }
    return Slice{size - length, length};
  }
  if (*range.first >= size) {
    return unsatisfiable();
  }
  const std::uint64_t last = std::min(range.last.value_or(size - 1), size - 1);
  return Slice{*range.first, last - *range.first + 1};
}

}  // namespace atl::service::native
