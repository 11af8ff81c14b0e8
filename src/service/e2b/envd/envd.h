// Port 49983 of a sandbox: what E2B's agent in the sandbox answers there, answered from here.
//
// Plain HTTP for the contents of files, metrics and environment; Connect for processes and names of
// files. The routes that only the control plane of E2B may call do not exist.
#pragma once

#include "control/sandbox_files.h"
#include "service/e2b/envd/file_transfers.h"
#include "service/e2b/envd/filesystem_service.h"
#include "service/e2b/envd/process_service.h"

namespace atl::service::e2b::envd {

class Envd {
 public:
  // All outlive it.
  Envd(control::Sandboxes& sandboxes, control::Contexts& contexts, control::PolledWatches& watches,
       const WallClock& clock)
      : sandboxes_(sandboxes),
        clock_(clock),
        places_(contexts, sandboxes),
        transfers_(places_, clock),
        processes_(contexts, places_),
        filesystem_(places_, watches) {}

  Task<> handle(E2bExchange& exchange, const SandboxTarget& target);

 private:
  Task<> call(E2bExchange& exchange, const SandboxTarget& target, std::string service,
              std::string method);
  Task<> metrics(E2bExchange& exchange, const SandboxTarget& target);
  Task<> envs(E2bExchange& exchange, const SandboxTarget& target);

  control::Sandboxes& sandboxes_;
  const WallClock& clock_;
  control::SandboxFiles places_;
  FileTransfers transfers_;
  ProcessService processes_;
  FilesystemService filesystem_;
};

}  // namespace atl::service::e2b::envd
