#include "runtime/namespaces/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>

#include <cerrno>

#include "runtime/namespaces/kernel_calls.h"

namespace atl::runtime::namespaces {

int landlock_abi() {
  const int abi = landlock_create_ruleset_call(nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return abi < 0 ? 0 : abi;
}

int enter_landlock_domain(const LandlockOptions& options) {
  if (options.abi < kLeastLandlockAbi) {
    return 0;
  }
  LandlockRuleset rules{};
  rules.handled_file_access =
      LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_REFER;
  std::size_t size = sizeof rules.handled_file_access;
  if (options.abi >= 6) {
    rules.scoped = kLandlockScopeSignals |
                   (options.scope_abstract_sockets ? kLandlockScopeAbstractSockets : 0U);
    size = sizeof rules;
  }
  const int ruleset = landlock_create_ruleset_call(&rules, size, 0);
  if (ruleset < 0) {
    return errno;
  }
  LandlockPathRule everywhere{};
  everywhere.allowed_access = LANDLOCK_ACCESS_FS_REFER;
  everywhere.parent_fd = ::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (everywhere.parent_fd < 0 ||
      ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &everywhere, 0) != 0 ||
      ::syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) {
    return errno;
  }
  ::close(everywhere.parent_fd);
  return ::close(ruleset);
}

}  // namespace atl::runtime::namespaces
