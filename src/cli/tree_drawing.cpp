#include "cli/tree_drawing.h"

#include <cstdlib>
#include <string_view>

#include "base/strings.h"

namespace atl::cli {
namespace {

struct Lines {
  std::string_view middle;
  std::string_view last;
  std::string_view beside;
};
constexpr Lines kUtf8Lines{"├─ ", "└─ ", "│  "};
constexpr Lines kAsciiLines{"|- ", "`- ", "|  "};
constexpr std::string_view kNothing = "   ";

void mend_depths(std::vector<TreeRow>& rows) {
  std::size_t allowed = 0;
  for (TreeRow& row : rows) {
    row.depth = std::min(row.depth, allowed);
    allowed = row.depth + 1;
  }
}

}  // namespace

std::string draw_tree(std::vector<TreeRow> rows, bool utf8) {
  const Lines& lines = utf8 ? kUtf8Lines : kAsciiLines;
  mend_depths(rows);
  // From the end, because a row's lines depend on what follows: follows[d] says that a row of depth
  // d comes later under the same parent.
  std::vector<bool> follows;
  for (std::size_t i = rows.size(); i-- > 0;) {
    const std::size_t depth = rows[i].depth;
    follows.resize(depth + 1);
    std::string prefix;
    for (std::size_t level = 1; level < depth; ++level) {
      prefix += follows[level] ? lines.beside : kNothing;
    }
    if (depth > 0) {
      prefix += follows[depth] ? lines.middle : lines.last;
    }
    rows[i].text.insert(0, prefix);
    follows[depth] = true;
  }
  std::string out;
  for (const TreeRow& row : rows) {
    out += row.text;
    out += '\n';
  }
  return out;
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') {
      const std::string text = to_lower(value);
      return text.contains("utf-8") || text.contains("utf8");
    }
  }
  return false;
}

}  // namespace atl::cli
