#include "daemon/account.h"

#include <grp.h>
#include <pwd.h>

#include "base/strings.h"

namespace atl::daemon {

Result<Account> find_account(const std::string& name) {
  const passwd* user = ::getpwnam(name.empty() ? kDefaultUser : name.c_str());
  if (user != nullptr) {
    if (user->pw_uid == 0 || user->pw_gid == 0) {
      return fail(Code::kInvalidArgument,
                  concat("user ", user->pw_name, " is root (or in root's group); the API process "
                         "faces the network and must not be"));
    }
    return Account{user->pw_uid, user->pw_gid};
  }
  if (!name.empty()) {
    return fail(Code::kNotFound,
                concat("there is no user ", name, "; make one with: useradd --system ", name));
  }
  if (::getpwuid(kReservedId) != nullptr || ::getgrgid(kReservedId) != nullptr) {
    return fail(Code::kFailedPrecondition,
                concat("the id ", kReservedId, " that Atoll uses belongs to somebody on this host; "
                       "make an own user with: useradd --system ", kDefaultUser));
  }
  return Account{kReservedId, kReservedId};
}

}  // namespace atl::daemon
