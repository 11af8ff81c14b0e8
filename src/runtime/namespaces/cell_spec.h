// Whether a cell that is asked for can be made at all.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "runtime/room.h"

namespace atl::runtime::namespaces {

// Of a-z and 0-9, perhaps also dashes.
bool is_name(std::string_view text, std::size_t max_size, bool with_dash);
Result<> check_id(const std::string& id);
Result<> check_path(const std::string& path);
Result<> check_limits(const Limits& limits);
Result<> check_spec(const CellSpec& spec);

}  // namespace atl::runtime::namespaces
