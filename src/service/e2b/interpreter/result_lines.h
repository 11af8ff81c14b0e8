// What an execution gives, as the lines that code-interpreter clients read.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "control/interpreter_result.h"

namespace atl::service::e2b::interpreter {

// {"type":"result","text":...,"png":...,"extra":{...},"is_main_result":true}
Json result_line(control::RichResult result);
// What the last lines before the end say: how many there were, and what went wrong. Each with its
// newline.
std::string ending_lines(const control::InterpreterResult& result);
// {"type":"error",...}
Json error_line(std::string_view name, std::string_view value, std::string_view traceback);

}  // namespace atl::service::e2b::interpreter
