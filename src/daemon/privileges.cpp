#include "daemon/privileges.h"

#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace atl::daemon {
namespace {

constexpr int kMostCapabilities = 64;

Result<> drop_bounding_set() {
  for (int capability = 0; capability < kMostCapabilities; ++capability) {
    if (::prctl(PR_CAPBSET_READ, capability) != 1) {
      continue;
    }
    if (::prctl(PR_CAPBSET_DROP, capability) != 0) {
      return fail_errno("dropping capabilities");
    }
  }
  return {};
}

Result<> check_dropped(const Account& account) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &header, data) != 0) {
    return fail_errno("reading capabilities");
  }
  uid_t uids[3];
  gid_t gids[3];
  bool same = ::getresuid(&uids[0], &uids[1], &uids[2]) == 0 &&
              ::getresgid(&gids[0], &gids[1], &gids[2]) == 0 && ::getgroups(0, nullptr) == 0;
  for (int i = 0; i < 3; ++i) {
    same = same && uids[i] == account.uid && gids[i] == account.gid;
  }
  for (const auto& set : data) {
    same = same && set.effective == 0 && set.permitted == 0 && set.inheritable == 0;
  }
  if (!same || account.uid == 0 || ::setuid(0) == 0) {
    return fail(Code::kInternal, "the API process still has privileges; not going on");
  }
  return {};
}

}  // namespace

Result<> drop_privileges(const Account& account) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return fail_errno("refusing new privileges");
  }
  TRY_DO(drop_bounding_set());
  if (::setgroups(0, nullptr) != 0 || ::setresgid(account.gid, account.gid, account.gid) != 0 ||
      ::setresuid(account.uid, account.uid, account.uid) != 0) {
    return fail_errno("changing to the API's account");
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  if (::syscall(SYS_capset, &header, none) != 0) {
    return fail_errno("dropping capabilities");
  }
  if (::prctl(PR_SET_DUMPABLE, 0) != 0) {
    return fail_errno("refusing core dumps");
  }
  return check_dropped(account);
}

Result<> die_with(pid_t supervisor) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    return fail_errno("binding this process to its supervisor");
  }
  if (::getppid() != supervisor) {  // it died before the line above
    return fail(Code::kAborted, "the supervisor is gone");
  }
  return {};
}

Result<> enter_private_mounts() {
  if (::unshare(CLONE_NEWNS) != 0) {
    return fail_errno("making a mount namespace (Atoll needs CAP_SYS_ADMIN)");
  }
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return fail_errno("separating mounts from the host's");
  }
  return {};
}

void raise_open_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
}

std::size_t open_file_limit() {
  rlimit files{};
  return ::getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : 1024;
}

}  // namespace atl::daemon
