// From what the API answered to an Error, and from an Error to advice.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "cli/endpoint.h"

namespace atl::cli {

// Reasons of errors that this room makes itself.
inline constexpr const char* kReasonTransport = "transport";     // no usable answer at all
inline constexpr const char* kReasonBrokenPipe = "broken_pipe";  // our reader has gone
inline constexpr const char* kReasonUsage = "usage";             // arguments; hint: --help

// 127 or 126, as a shell says it, when the program of run or exec does not exist in the sandbox
// or cannot be executed; else 125.
int start_failure_status(const Error& error);

// The code for an HTTP status: base's table read backwards.
Code code_from_http_status(int status);

// `body` is the answer's text: the envelope {"success":false,"error":{code,message}} or anything
// else a proxy may say. The envelope's details.reason, else its code, becomes the reason.
Error error_from_answer(int status, std::string_view body);

// The process (or its whole sandbox) has ended meanwhile: what its natural end explains.
bool process_is_gone(const Error& error);

// Wraps what the client or the network said; keeps cancellations and deadlines as they are.
Error transport_error(Error error, const Endpoint& endpoint);

// What to try next, or empty.
std::string hint_for(const Error& error, const Endpoint& endpoint);

}  // namespace atl::cli
