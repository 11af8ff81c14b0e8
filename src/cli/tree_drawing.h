// A forest drawn with lines, one row a node.
//
//   a
//   ├─ b
//   │  └─ c
//   └─ d
#pragma once

#include <string>
#include <vector>

namespace atl::cli {

struct TreeRow {
  std::size_t depth = 0;
  std::string text;
};

// Rows are in the order they are drawn in: each before its children. A row that is deeper than its
// parent by more than one is drawn as its child.
std::string draw_tree(std::vector<TreeRow> rows, bool utf8);

// Whether the locale of this process writes UTF-8: LC_ALL, else LC_CTYPE, else LANG.
bool locale_is_utf8();

}  // namespace atl::cli
