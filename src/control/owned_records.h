// Records of a kind that belong to sandboxes. One of a sandbox that never came to be, because its
// claim or this process ended first, is removed.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "control/store_access.h"

namespace atl::control {

inline Task<std::vector<store::Record>> load_owned_records(StoreAccess store, std::string kind) {
  co_return co_await store.run([kind](store::Store& s) -> Result<std::vector<store::Record>> {
    TRY(auto records, s.list_records(kind));
    TRY(const auto rows, s.list_sandboxes());
    std::set<std::string, std::less<>> ids;
    for (const store::Sandbox& row : rows) {
      ids.insert(row.id);
    }
    std::vector<store::Record> owned;
    for (store::Record& record : records) {
      if (ids.contains(record.owner_id)) {
        owned.push_back(std::move(record));
      } else {
        TRY_DO(s.remove_record(kind, record.id));
      }
    }
    return owned;
  });
}

}  // namespace atl::control
