#include "runtime/namespaces/owner_identity.h"

#include <linux/securebits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/strings.h"

namespace atl::runtime::namespaces {
namespace {

constexpr uid_t kUnchanged = static_cast<uid_t>(-1);

// Raw calls: the C library's would change every thread of the process.
bool set_effective_user(uid_t uid) {
  return ::syscall(SYS_setresuid, kUnchanged, uid, kUnchanged) == 0;
}

}  // namespace

Result<> OwnerIdentity::take(std::uint32_t uid) {
  CHECK(!bits_changed_ && !user_changed_);
  own_user_ = ::geteuid();
  parent_ = ::getppid();
  own_bits_ = ::prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
  if (own_bits_ < 0 || ::prctl(PR_GET_PDEATHSIG, &death_signal_, 0, 0, 0) != 0) {
    return fail_errno("reading the node's own identity");
  }
  // Without this bit the change of the id would take the effective capabilities, and with them the
  // right to make a user namespace on hosts that keep it from ordinary users.
  if ((own_bits_ & SECBIT_NO_SETUID_FIXUP) == 0) {
    if (::prctl(PR_SET_SECUREBITS, own_bits_ | SECBIT_NO_SETUID_FIXUP, 0, 0, 0) != 0) {
      return fail_errno("keeping capabilities while making a cell (the node needs CAP_SETPCAP)");
    }
    bits_changed_ = true;
  }
  if (!set_effective_user(uid)) {
    return fail_errno(concat("taking the cell's user id ", uid, " (the node needs CAP_SETUID)"));
  }
  user_changed_ = true;
  // Has no error to return; were it refused, the child could not reach its stage and would say so.
  ::syscall(SYS_setfsuid, own_user_);
  return {};
}

void OwnerIdentity::give_back() {
  if (user_changed_) {
    CHECK(set_effective_user(own_user_));
    user_changed_ = false;
  }
  if (bits_changed_) {
    CHECK(::prctl(PR_SET_SECUREBITS, own_bits_, 0, 0, 0) == 0);
    bits_changed_ = false;
  }
  // A change of identity disarms the signal a thread asked for at its parent's death.
  if (death_signal_ != 0) {
    CHECK(::prctl(PR_SET_PDEATHSIG, death_signal_, 0, 0, 0) == 0);
    if (::getppid() != parent_) {  // it died just now, and the signal went nowhere
      ::raise(death_signal_);
    }
    death_signal_ = 0;
  }
}

}  // namespace atl::runtime::namespaces
