// What the decoders of the guest protocol look at in common. Private to the files wire*.cpp.
#pragma once

#include <string>
#include <string_view>

#include "guest/wire.h"

namespace atl::guest {

Result<> refuse(std::string message, std::string reason = "malformed");
bool has_nul(std::string_view text);
Result<> check_user(std::string_view user);
Result<> check_mode(std::uint32_t mode);
Result<> check_file_request(std::string_view path, std::string_view user);
// The path of a result: absolute, below a path that was asked for.
bool is_result_path(std::string_view path);

}  // namespace atl::guest
