// The cell's ids: sandbox id 0..65535 is host id uid_base..uid_base+65535, for users and groups.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace atl::runtime::namespaces {

inline constexpr std::uint32_t kIdsPerCell = 65536;
// Below are the host's own users; above, (id_t)-1 must not be reached.
inline constexpr std::uint32_t kLeastIdBase = 65536;
inline constexpr std::uint32_t kGreatestIdBase = 0xFFFF0000U - kIdsPerCell;

Result<> check_id_base(std::uint32_t id_base);
// `proc_fd` is the child's /proc/<pid>. REQUIRES: CAP_SETUID and CAP_SETGID.
Result<> write_id_maps(int proc_fd, std::uint32_t id_base);

}  // namespace atl::runtime::namespaces
