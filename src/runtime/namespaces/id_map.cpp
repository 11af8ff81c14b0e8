#include "runtime/namespaces/id_map.h"

#include "base/fd.h"
#include "base/strings.h"

namespace atl::runtime::namespaces {

Result<> check_id_base(std::uint32_t id_base) {
  if (id_base < kLeastIdBase || id_base > kGreatestIdBase) {
    return fail(Code::kInvalidArgument,
                concat("uid_base must be between ", kLeastIdBase, " and ", kGreatestIdBase));
  }
  return {};
}

Result<> write_id_maps(int proc_fd, std::uint32_t id_base) {
  const std::string map = concat("0 ", id_base, " ", kIdsPerCell);
  TRY_DO(write_existing_at(proc_fd, "uid_map", map));
  return write_existing_at(proc_fd, "gid_map", map);
}

}  // namespace atl::runtime::namespaces
