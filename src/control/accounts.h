// Accounts of an image, as its /etc/passwd and /etc/group have them. Pure: texts in, texts out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::control {

struct Account {
  std::string name;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string home;
};

struct AccountFiles {
  std::string passwd;
  std::string group;
};

// By name, or by number.
std::optional<Account> find_account(std::string_view passwd, std::string_view name);
// The number that a passwd or group file has for a name, or that the name is.
std::optional<std::uint32_t> find_id(std::string_view text, std::string_view name);
// A new one with a home below /home, and a group of its own. kInvalidArgument for a name that no
// account can have. REQUIRES: there is none with this name.
Result<Account> add_account(AccountFiles& files, std::string_view name, std::string_view shell);

}  // namespace atl::control
