// "Did you mean …?": the known word nearest to a mistyped one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace atl::cli {

// Insertions, deletions, replacements and swaps of neighbours each cost one.
std::size_t edit_distance(std::string_view a, std::string_view b);

// nullopt when nothing is near enough to be a plausible typing error.
std::optional<std::string> nearest_word(std::string_view word,
                                        const std::vector<std::string>& known);

}  // namespace atl::cli
