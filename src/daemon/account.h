// The account of the API process: a named user, or a number that belongs to nobody.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/error.h"

namespace atl::daemon {

inline constexpr const char* kDefaultUser = "atoll";
// Used when the host has no user "atoll": above what distributions hand out, below systemd's
// dynamic users (61184 and up).
inline constexpr uid_t kReservedId = 61042;

struct Account {
  uid_t uid = 0;
  gid_t gid = 0;
};

// `name` empty: kDefaultUser, else the reserved number. Never root.
Result<Account> find_account(const std::string& name);

}  // namespace atl::daemon
