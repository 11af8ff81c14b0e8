// The worker: a forked child that serves one file request.
//
// It takes the caller's identity and then uses ordinary blocking calls, so ordinary permissions
// decide, a slow disk or a strange file stalls only this request, and a crash loses only this
// request.
#pragma once

#include <string_view>

#include "guest/wire.h"

namespace atl::guest {

bool is_file_request(Kind kind);

// In a forked child. `early_input` is what arrived behind the request. Answers and exits.
[[noreturn]] void run_file_worker(int socket, Kind kind, std::string_view payload,
                                  std::string_view early_input);

}  // namespace atl::guest
