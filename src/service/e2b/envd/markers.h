// Files below /run/e2b by which programs learn that they are in a sandbox, and in which.
//
// Written beside the first command that somebody starts here, which does not wait for them. Which
// sandboxes have theirs is remembered to save the work, no more: writing them again changes
// nothing.
#pragma once

#include <set>
#include <string>

#include "control/files.h"
#include "service/e2b/sandbox_target.h"

namespace atl::service::e2b::envd {

class Markers {
 public:
  explicit Markers(control::FilePlaces& places) : places_(places) {}

  // True once for each sandbox and its incarnations.
  bool wanted(const SandboxTarget& target);
  Task<> write(control::SandboxRef sandbox, std::string template_name);

 private:
  control::FilePlaces& places_;
  std::set<std::string, std::less<>> written_;
};

}  // namespace atl::service::e2b::envd
