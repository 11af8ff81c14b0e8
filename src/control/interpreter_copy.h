// Interpreters that become others: what both those of forks and those made beforehand need.
#pragma once

#include <cstdint>
#include <optional>

#include "control/contexts.h"
#include "control/languages.h"

namespace atl::control {

// An interpreter as it was at one moment, to be made again in other sandboxes.
struct CopiedInterpreter {
  guest::ProcessInfo process;
  CapturedProcess image;
  std::uint32_t threads = 0;  // that were left behind
  std::optional<ContextRequest> remembered;
};

// Whether copies share the memory of the image until they write to it.
enum class CopyMemory : std::uint8_t { kShared, kOwn };

// Of an idle interpreter, as an image of at most so many bytes. It goes on meanwhile.
Task<CopiedInterpreter> copy_interpreter(GuestClient client, guest::ProcessInfo process,
                                         std::uint64_t max_bytes, CopyMemory memory);

// Until the driver says it is ready. What it printed instead explains why it is not.
Task<> await_driver(ProcessStream& stream, const Language& language);

// Variables as a driver takes them: names and values in base64.
std::string environment_words(const StringMap& env);

}  // namespace atl::control
