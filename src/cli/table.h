// Aligned text tables. Columns are as wide as their widest cell; the last one is not padded.
// Cells may hold UTF-8 (each code point counts one column) and must not hold colours: paint whole
// columns with `painter` instead, which sees the padded text.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace atl::cli {

class Table {
 public:
  using Row = std::vector<std::string>;
  using Painter = std::function<std::string(std::size_t row, std::size_t column, std::string_view)>;

  explicit Table(Row header) : header_(std::move(header)) {}
  void add(Row row) { rows_.push_back(std::move(row)); }  // REQUIRES: as many cells as the header
  std::size_t size() const { return rows_.size(); }
  // Rows are numbered from 0; the header is never painted.
  std::string render(const Painter& painter = {}) const;

 private:
  Row header_;
  std::vector<Row> rows_;
};

std::size_t display_width(std::string_view utf8);

// 3661 -> "1h1m", 59 -> "59s", 90000 -> "1d1h": two units at most.
std::string format_age(long long seconds);
// 1536 -> "1.5 KiB", for people.
std::string format_bytes(unsigned long long bytes);

}  // namespace atl::cli
