#include "cli/table.h"

#include "base/error.h"
#include "base/strings.h"

namespace atl::cli {

std::size_t display_width(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
}

std::string Table::render(const Painter& painter) const {
  std::vector<std::size_t> widths;
  for (const auto& cell : header_) {
    widths.push_back(display_width(cell));
  }
  for (const auto& row : rows_) {
    CHECK(row.size() == header_.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  std::string out;
  const auto add_row = [&](const Row& row, const Painter& paint, std::size_t number) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string cell = row[i];
      if (i + 1 < row.size()) {
        cell.append(widths[i] - display_width(cell) + 2, ' ');
      }
      out += paint ? paint(number, i, cell) : cell;
    }
    out += '\n';
  };
  add_row(header_, {}, 0);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    add_row(rows_[i], painter, i);
  }
  return out;
}

std::string format_age(long long seconds) {
  struct Unit {
    long long seconds;
    char letter;
  };
  static constexpr Unit kUnits[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
  seconds = std::max(seconds, 0LL);
  for (std::size_t i = 0; i < std::size(kUnits); ++i) {
    const auto& unit = kUnits[i];
    if (seconds < unit.seconds) {
      continue;
    }
    std::string out = concat(seconds / unit.seconds, unit.letter);
    const auto rest = seconds % unit.seconds;
    if (i + 1 < std::size(kUnits) && rest >= kUnits[i + 1].seconds) {
      out += concat(rest / kUnits[i + 1].seconds, kUnits[i + 1].letter);
    }
    return out;
  }
  return "0s";
}

std::string format_bytes(unsigned long long bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  unsigned long long scale = 1;
  while (unit + 1 < std::size(kUnits) && bytes / scale >= 1024) {
    scale *= 1024;
    ++unit;
  }
  if (unit == 0) {
    return concat(bytes, " B");
  }
  const auto tenths = static_cast<unsigned long long>(static_cast<long double>(bytes) * 10 /
                                                      static_cast<long double>(scale));
  return concat(tenths / 10, ".", tenths % 10, " ", kUnits[unit]);
}

}  // namespace atl::cli
