// The program that runs a function, and how it is started: as a context whose standard input is one
// JSON object {driver, code, handler, service_id, max_concurrency} and whose descriptor 3 says
// which port on loopback it has ("40123\n"). It speaks HTTP/1.1 to us and stays, so that no request
// waits for an interpreter.
#pragma once

#include <string>
#include <vector>

#include "control/service.h"

namespace atl::ingress {

extern const char* const kPythonWorker;
extern const char* const kNodeWorker;

inline constexpr std::size_t kMaxFunctionRequestBytes = std::size_t{8} << 20;
inline constexpr std::int64_t kFunctionSeconds = 30;  // when the route does not say
inline constexpr std::int64_t kMaxFunctionSeconds = 120;

std::vector<std::string> worker_command(const control::ServiceFunction& function);
std::string worker_input(const control::Service& service);

}  // namespace atl::ingress
