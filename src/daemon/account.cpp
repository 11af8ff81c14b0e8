#include "daemon/account.h"

#include <grp.h>
#include <pwd.h>

#include <cstdint>

#include "base/strings.h"

namespace atl::daemon {

uid_t reserved_id(const std::string& instance) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : instance) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return kFirstReservedId + hash % kReservedIdCount;
}

Result<Account> find_account(const std::string& name, const std::string& instance) {
  const passwd* user = ::getpwnam(name.empty() ? kDefaultUser : name.c_str());
  if (user != nullptr) {
    if (user->pw_uid == 0 || user->pw_gid == 0) {
      return fail(Code::kInvalidArgument, concat("user ", user->pw_name,
                                                 " is root (or in root's group); the API process "
                                                 "faces the network and must not be"));
    }
    return Account{user->pw_uid, user->pw_gid};
  }
  if (!name.empty()) {
    return fail(Code::kNotFound,
                concat("there is no user ", name, "; make one with: useradd --system ", name));
  }
  const uid_t id = reserved_id(instance);
  if (::getpwuid(id) != nullptr || ::getgrgid(id) != nullptr) {
    return fail(Code::kFailedPrecondition,
                concat("the id ", id,
                       " that Atoll uses belongs to somebody on this host; "
                       "make an own user with: useradd --system ",
                       kDefaultUser));
  }
  return Account{id, id};
}

}  // namespace atl::daemon
