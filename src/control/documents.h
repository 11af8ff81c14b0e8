// Documents that others keep about sandboxes (services, network policies): made in the transaction
// of a claim, handed on to forks. Sandboxes knows only that there are some.
#pragma once

#include <string>
#include <vector>

#include "store/room.h"

namespace atl::control {

class DocumentKeeper {
 public:
  virtual ~DocumentKeeper() = default;
  // What a fork of this sandbox begins with: kind and body; the rest is filled in.
  virtual std::vector<store::Record> inherit(const std::string& parent_id) = 0;
  // A new sandbox has this document. Told about all kinds, before the claim is answered.
  virtual void recorded(const store::Sandbox& sandbox, const store::Record& record) = 0;
};

}  // namespace atl::control
