// The programs that run code inside a sandbox, from the files beside this one (room.cmake embeds
// them).
#pragma once

namespace atl::control {

extern const char* const kPythonDriver;
extern const char* const kPythonCharts;
extern const char* const kNodeDriver;
extern const char* const kBashDriver;
extern const char* const kPipeBridge;
extern const char* const kRDriver;
extern const char* const kJavaDriver;
extern const char* const kPerlRepl;

}  // namespace atl::control
