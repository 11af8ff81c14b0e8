// /files and /files/compose: the contents of files, in both directions, in pieces.
#pragma once

#include "base/clock.h"
#include "control/files.h"
#include "service/e2b/e2b_exchange.h"
#include "service/e2b/sandbox_target.h"

namespace atl::service::e2b::envd {

class FileTransfers {
 public:
  FileTransfers(control::FilePlaces& places, const WallClock& clock)
      : places_(places), clock_(clock) {}

  // REQUIRES: the path is /files. Checks token or signature itself.
  Task<> serve(E2bExchange& exchange, const SandboxTarget& target);
  Task<> compose(E2bExchange& exchange, const SandboxTarget& target);

 private:
  struct Access {
    std::string user;
    std::string directory;  // of a path that is empty
  };
  Result<Access> authorize(const E2bExchange& exchange, const SandboxTarget& target) const;
  Task<> download(E2bExchange& exchange, control::Files& files, Access access);
  Task<> upload(E2bExchange& exchange, control::Files& files, Access access);
  Task<> compose_now(E2bExchange& exchange, const SandboxTarget& target, std::string& user);

  control::FilePlaces& places_;
  const WallClock& clock_;
};

}  // namespace atl::service::e2b::envd
