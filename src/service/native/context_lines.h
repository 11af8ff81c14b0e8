// Output and exit of a followed context as JSON, and the two ways to send them as they come.
#pragma once

#include <string>

#include "control/contexts.h"
#include "service/native/context_json.h"
#include "service/native/routes.h"

namespace atl::service::native {

std::string output_object(const guest::Output& output);
std::string exit_object(const guest::ExitStatus& status);

// "Accept: text/event-stream"
bool wants_events(const NativeExchange& exchange);
// Until the exit, which is the last event.
Task<> follow_as_events(NativeExchange& exchange, control::ProcessStream& stream);

}  // namespace atl::service::native
