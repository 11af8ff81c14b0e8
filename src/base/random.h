// Randomness and hashing.
#pragma once

#include <string>
#include <string_view>

namespace atl {

std::string random_bytes(std::size_t count);       // from the kernel; aborts if it cannot
std::string random_hex(std::size_t digits);        // lowercase
std::string random_label(std::size_t characters);  // [a-z0-9], first one a letter
std::string sha256(std::string_view bytes);        // 32 raw bytes
bool equal_constant_time(std::string_view a, std::string_view b);

}  // namespace atl
