// Processes as E2B's messages tell them.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "guest/wire.h"
#include "service/e2b/envd/message_codec.h"

namespace atl::service::e2b::envd {

// ProcessEvent with what a process has written, in bytes: the same as by way of a message, without
// copying it so often.
std::string encode_output(Codec codec, const guest::Output& output);

// The texts are those of Go's os.ProcessState: "exit status 1", "signal: killed".
Json end_event(const guest::ExitStatus& status);
// Of a context that E2B shows; nothing when it is an interpreter.
std::optional<Json> process_json(const guest::ProcessInfo& process);
std::string process_tag(const guest::ProcessInfo& process);  // empty: none

// What of a process only E2B knows, kept as the label of its context. An environment that does not
// fit is left out.
std::string process_label(const std::string& tag, const Json& envs);

}  // namespace atl::service::e2b::envd
