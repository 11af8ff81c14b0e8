#include "guest/identity.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/fd.h"
#include "base/strings.h"
#include "guest/limits.h"
#include "guest/wire.h"

namespace atl::guest {
namespace {

constexpr std::uint64_t kMaxId = UINT32_MAX - 1;  // (uid_t)-1 means "leave as it is"

std::optional<std::uint32_t> parse_id(std::string_view text) {
  const auto number = parse_u64(text);
  if (!number || *number > kMaxId) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(*number);
}

// Calls `use` with the fields of each line that has at least `min_fields`, until it returns true.
template <class Use>
void for_each_line(std::string_view text, std::size_t min_fields, Use use) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto fields = split(text.substr(0, end), ':');
    if (fields.size() >= min_fields && use(fields)) {
      return;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

struct Account {
  std::string_view name;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string_view home;
  std::string_view shell;
};

std::optional<Account> find_account(std::string_view passwd, std::string_view name,
                                    std::optional<std::uint32_t> uid) {
  std::optional<Account> found;
  for_each_line(passwd, 7, [&](const std::vector<std::string_view>& fields) {
    const auto line_uid = parse_id(fields[2]);
    const auto line_gid = parse_id(fields[3]);
    if (!line_uid || !line_gid || !(uid ? *uid == *line_uid : fields[0] == name)) {
      return false;
    }
    found = Account{fields[0], *line_uid, *line_gid, fields[5], fields[6]};
    return true;
  });
  return found;
}

std::vector<gid_t> find_groups(std::string_view group, std::string_view member) {
  std::vector<gid_t> groups;
  for_each_line(group, 4, [&](const std::vector<std::string_view>& fields) {
    const auto gid = parse_id(fields[2]);
    const auto members = split(fields[3], ',');
    if (gid && std::find(members.begin(), members.end(), member) != members.end()) {
      groups.push_back(*gid);
    }
    return groups.size() >= kMaxSupplementaryGroups;
  });
  return groups;
}

std::string read_account_file(const char* path) {
  const Fd fd{::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
  struct stat status{};
  std::string content;
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return content;
  }
  char buffer[4096];
  while (content.size() < kMaxAccountFileBytes) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) {
      break;
    }
    content.append(buffer, static_cast<std::size_t>(got));
    if (status.st_size > 0 && content.size() >= static_cast<std::size_t>(status.st_size)) {
      break;
    }
  }
  return content;
}

Identity from_account(const Account& account, std::string_view group) {
  Identity identity;
  identity.uid = account.uid;
  identity.gid = account.gid;
  identity.groups = find_groups(group, account.name);
  identity.name = account.name;
  identity.home = account.home.empty() || account.home[0] != '/' ? "/" : account.home;
  identity.shell = account.shell.empty() ? "/bin/sh" : account.shell;
  return identity;
}

}  // namespace

Result<Identity> resolve_identity(std::string_view user, std::string_view passwd,
                                  std::string_view group) {
  if (user.empty()) {
    user = "root";
  }
  const auto colon = user.find(':');
  const auto user_part = user.substr(0, colon);
  const auto uid = parse_id(user_part);
  std::optional<std::uint32_t> gid;
  if (colon != std::string_view::npos) {
    gid = parse_id(user.substr(colon + 1));
    if (!uid || !gid) {
      return fail(Code::kInvalidArgument,
                  concat("user '", user, "' is not a name, a uid or uid:gid"), "bad_user");
    }
  }
  const auto account = find_account(passwd, user_part, uid);
  Identity identity;
  if (account) {
    identity = from_account(*account, group);
  } else if (uid && *uid != 0) {
    // An id without an account, as in `docker run --user 1234`.
    identity.uid = *uid;
    identity.name = concat(*uid);
    identity.home = "/";
  } else if (!uid && user_part != "root") {
    return fail(Code::kNotFound, concat("user '", user, "' is not in /etc/passwd"),
                "user_not_found");
  }
  if (gid) {
    identity.gid = *gid;
  }
  return identity;
}

Result<Identity> find_identity(std::string_view user) {
  return resolve_identity(user, read_account_file("/etc/passwd"), read_account_file("/etc/group"));
}

std::string expand_home(const std::string& path, const Identity& identity) {
  if (path != "~" && !path.starts_with("~/")) {
    return path;
  }
  const std::string rest = path.substr(1);
  if (identity.home == "/") {
    return rest.empty() ? "/" : rest;
  }
  return identity.home + rest;
}

AccountNames::AccountNames()
    : AccountNames(read_account_file("/etc/passwd"), read_account_file("/etc/group")) {}

AccountNames::AccountNames(std::string_view passwd, std::string_view group) {
  const auto collect = [](std::string_view text, std::map<std::uint32_t, std::string>& names) {
    for_each_line(text, 3, [&names](const std::vector<std::string_view>& fields) {
      const auto id = parse_id(fields[2]);
      if (id && fields[0].size() <= kMaxUserBytes) {
        names.emplace(*id, fields[0]);
      }
      return false;
    });
  };
  collect(passwd, users_);
  collect(group, groups_);
}

const std::string& AccountNames::user(uid_t uid) {
  return users_.try_emplace(uid, concat(uid)).first->second;
}

const std::string& AccountNames::group(gid_t gid) {
  return groups_.try_emplace(gid, concat(gid)).first->second;
}

Result<> assume_identity(const Identity& identity) {
  if (::setgroups(identity.groups.size(), identity.groups.data()) != 0) {
    // An agent without privileges (development) can only be itself.
    const bool already = errno == EPERM && ::geteuid() == identity.uid &&
                         ::getegid() == identity.gid && ::geteuid() != 0;
    if (!already) {
      return fail_errno("setting the groups");
    }
  }
  if (::setresgid(identity.gid, identity.gid, identity.gid) != 0 ||
      ::setresuid(identity.uid, identity.uid, identity.uid) != 0) {
    const int error_number = errno;
    if (error_number == EINVAL) {
      return fail(Code::kNotFound,
                  concat("ids ", identity.uid, ":", identity.gid, " do not exist in this sandbox"),
                  "user_not_found");
    }
    return fail(errno_error("becoming the user", error_number));
  }
  return {};
}

Result<Identity> find_owner(std::string_view owner) {
  const auto colon = owner.find(':');
  const auto uid = parse_id(owner.substr(0, colon));
  if (colon == std::string_view::npos && !owner.empty() && !uid) {
    return find_identity(owner);
  }
  const auto gid = colon == owner.npos ? std::nullopt : parse_id(owner.substr(colon + 1));
  if (!uid || !gid) {
    return fail(Code::kInvalidArgument, "an owner is given by name or as uid:gid", "bad_user");
  }
  Identity identity;
  identity.uid = *uid;
  identity.gid = *gid;
  identity.name = concat(*uid);
  identity.home = "/";
  return identity;
}

Result<> act_for_owner(const Identity& owner) {
  // Both answer with what was before; asking for nothing tells whether it worked.
  (void)::setfsgid(owner.gid);
  (void)::setfsuid(owner.uid);
  if (static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1))) != owner.gid ||
      static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))) != owner.uid) {
    return fail(Code::kNotFound,
                concat("ids ", owner.uid, ":", owner.gid, " do not exist in this sandbox"),
                "user_not_found");
  }
  // With another id for files the kernel has put root's rights on files aside.
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &header, data) != 0) {
    return fail_errno("reading the capabilities");
  }
  data[0].effective = data[0].permitted;
  data[1].effective = data[1].permitted;
  if (::syscall(SYS_capset, &header, data) != 0) {
    return fail_errno("keeping the capabilities");
  }
  return {};
}

bool makes_files_of_root() {
  return ::setfsuid(static_cast<uid_t>(-1)) == 0;
}

}  // namespace atl::guest
