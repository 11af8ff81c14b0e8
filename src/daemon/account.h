// The account of the API process: a named user, or a number that belongs to nobody.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/error.h"

namespace atl::daemon {

inline constexpr const char* kDefaultUser = "atoll";
// Used when the host has no user "atoll": numbers above what distributions hand out to people and
// near systemd's dynamic users (61184 and up, which are in the user database while they live). Each
// installation has its own, because whoever has the number may talk to its node.
inline constexpr uid_t kFirstReservedId = 61042;
inline constexpr uid_t kReservedIdCount = 1000;

struct Account {
  uid_t uid = 0;
  gid_t gid = 0;
};

// The reserved number of an installation: the same at each start.
uid_t reserved_id(const std::string& instance);

// `name` empty: kDefaultUser, else the reserved number of the instance. Never root.
Result<Account> find_account(const std::string& name, const std::string& instance);

}  // namespace atl::daemon
