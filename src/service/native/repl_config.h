// A REPL that a client defines itself, as the contract writes it.
#pragma once

#include "control/repl_definition.h"
#include "service/native/fields.h"

namespace atl::service::native {

// Reads the field "repl_config".
Result<control::ReplConfig> parse_repl_config(const Fields& repl);

}  // namespace atl::service::native
