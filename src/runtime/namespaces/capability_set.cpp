#include "runtime/namespaces/capability_set.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace atl::runtime::namespaces {

// Asks the kernel for each number until it knows no more, so capabilities that are newer than
// our headers are dropped too.
int drop_bounding_set() {
  for (int capability = 0; capability < 64; ++capability) {
    if ((kKeptCapabilities & capability_bit(capability)) != 0) {
      continue;
    }
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
      return errno == EINVAL && capability > 0 ? 0 : errno;
    }
  }
  return 0;
}

int drop_to_kept_capabilities() {
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) {
    return errno;
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  for (int word = 0; word < 2; ++word) {
    const auto kept = static_cast<std::uint32_t>(kKeptCapabilities >> (32 * word));
    data[word].effective = kept;
    data[word].permitted = kept;
  }
  return ::syscall(SYS_capset, &header, data) != 0 ? errno : 0;
}

}  // namespace atl::runtime::namespaces
