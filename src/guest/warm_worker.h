// The forked child of the agent that captures one process and sends the image.
#pragma once

#include <string>

#include "guest/warm_capture.h"

namespace atl::guest {

struct CaptureOrder {
  CaptureSource source;
  std::string user;  // whose process it is
};

// Owns the connection from then on.
[[noreturn]] void run_capture_worker(int socket, const CaptureOrder& order);

}  // namespace atl::guest
