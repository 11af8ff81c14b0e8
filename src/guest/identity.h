// Who a process or a file request runs as.
//
// /etc/passwd and /etc/group belong to the sandbox, so they are read like any hostile file: only
// regular files, without blocking, bounded, and by a forked child, never by PID 1 itself. There is
// no NSS: the two text files are the whole truth. A missing passwd (an empty image) still knows
// root and any numeric id.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::guest {

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary
  std::string name = "root";
  std::string home = "/root";
  std::string shell = "/bin/sh";
};

// `user` is a name, a uid or uid:gid; empty means root. Fails with reason user_not_found.
Result<Identity> resolve_identity(std::string_view user, std::string_view passwd,
                                  std::string_view group);
// The same with the files of this root directory.
Result<Identity> find_identity(std::string_view user);
// "~" and "~/x" with the home directory of the user; other paths as they are.
std::string expand_home(const std::string& path, const Identity& identity);

// The names of ids, for listings.
class AccountNames {
 public:
  AccountNames();  // with the files of this root directory
  AccountNames(std::string_view passwd, std::string_view group);
  const std::string& user(uid_t uid);  // the number when it has no name
  const std::string& group(gid_t gid);

 private:
  std::map<std::uint32_t, std::string> users_;
  std::map<std::uint32_t, std::string> groups_;
};
// setgroups, setresgid, setresuid: for good. Does nothing when the caller already is `identity`
// and may not call setgroups.
Result<> assume_identity(const Identity& identity);

// "owner:1000:1000" or "owner:user" as the user of a file request: root's rights, but what is made
// belongs to these ids. For volumes, whose files are the caller's whatever account made them, and
// for clients that act for a user without being held by the user's rights.
inline constexpr std::string_view kOwnerPrefix = "owner:";
Result<Identity> find_owner(std::string_view owner);
Result<> act_for_owner(const Identity& owner);
// What this process makes belongs to root.
bool makes_files_of_root();

}  // namespace atl::guest
