// The operator's floor: a policy document in a file, below every policy of every sandbox.
//
// Read at the start, where a broken file is a reason not to start, and again whenever the file is
// written or replaced; then a broken one is reported and the earlier policy stays.
#pragma once

#include <functional>
#include <string>

#include "base/fd.h"
#include "base/task.h"
#include "egress/policy.h"
#include "io/reactor.h"

namespace atl::control {

class OperatorPolicy {
 public:
  // Watches from here on, so no change falls between the first reading and the next.
  static Result<OperatorPolicy> open(const std::string& path);

  Result<egress::Policy> read() const;
  // Calls `changed` with every other policy the file gets. Until cancelled.
  Task<> run(io::Reactor& reactor, std::function<void(egress::Policy)> changed);

 private:
  OperatorPolicy(std::string path, Fd events)
      : path_(std::move(path)), events_(std::move(events)) {}

  std::string path_;
  Fd events_;  // an inotify of its directory: an editor replaces the file
};

}  // namespace atl::control
