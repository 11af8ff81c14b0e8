// Contexts and executions as the native API shows them.
#pragma once

#include "base/json.h"
#include "control/contexts.h"
#include "control/interpreter_result.h"

namespace atl::service::native {

Json context_json(const control::Context& context);
// state and, after the end, exit_code and what ended it.
void set_exit(Json& json, const guest::ProcessInfo& process);
// output_raw, stdout, stderr, state of the contract; outcome, status, results, error of ours.
void set_execution(Json& json, const control::InterpreterResult& result);
void set_ending(Json& json, const control::InterpreterResult& result);  // all but the output
std::string_view source_name(guest::Stream stream);

}  // namespace atl::service::native
