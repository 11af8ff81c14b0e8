// Lists and maps as JSON text columns, and back. What comes back was written by us, but a damaged
// file must not become a crash: anything unexpected is kDataLoss.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "store/room.h"

namespace atl::store {

std::string encode_list(const std::vector<std::string>& values);
std::string encode_map(const StringMap& values);
Result<std::vector<std::string>> decode_list(const std::string& column);
std::string encode_mounts(const std::vector<Mount>& mounts);
Result<std::vector<Mount>> decode_mounts(const std::string& column);
Result<StringMap> decode_map(const std::string& column);

}  // namespace atl::store
