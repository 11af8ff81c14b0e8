// The lines of a Dockerfile, joined where one continues on the next.
//
// Comment lines and empty lines are skipped, also between continuation lines. The directives at the
// top (escape, syntax) are read first, because they say which character continues a line.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace atl::oci {

std::string_view trim_left(std::string_view text);  // blanks and tabs

class LogicalLines {
 public:
  // Borrows the text.
  explicit LogicalLines(std::string_view text);

  char escape() const { return escape_; }
  // The next one and the number it begins on; nullopt at the end.
  std::optional<std::string> next(int& first_line);
  // A line of a heredoc, as it is.
  std::optional<std::string_view> next_raw();

 private:
  void read_directives();

  std::vector<std::string_view> lines_;
  std::size_t at_ = 0;
  char escape_ = '\\';
};

}  // namespace atl::oci
