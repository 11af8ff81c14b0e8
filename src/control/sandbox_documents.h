// What other parts keep about a sandbox beside its row: its network policy, its services.
#pragma once

#include <string>
#include <vector>

#include "store/room.h"

namespace atl::control {

struct ClaimRequest;

class SandboxDocuments {
 public:
  virtual ~SandboxDocuments() = default;
  // Called before the cell is made; what it refuses is not made. The records are written in the
  // transaction of the row.
  virtual Result<std::vector<store::Record>> begin(const store::Sandbox& row,
                                                   const ClaimRequest& request) = 0;
  // The sandbox is gone with its records, or never came to be.
  virtual void forget(const std::string& id) = 0;
  // For its processes. What the sandbox or its template says comes first.
  virtual store::StringMap environment(const store::Sandbox& row) const = 0;
};

}  // namespace atl::control
