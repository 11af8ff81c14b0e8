// The interpreters Atoll has a driver for, by the names people use.
//
// An interpreter's argv ends with "atoll-repl" and the alias, so that what a process is can be read
// from the guest's own table after any restart of ours. (A channel belongs to it too: only we can
// ask for one, so a command that imitates the marker is still a command.)
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "guest/wire.h"

namespace atl::control {

enum class Interrupt : std::uint8_t { kSignal, kChannel };

struct Language {
  std::string_view alias;    // as the user may write it
  std::string_view name;     // "python", "javascript", "typescript", "bash", "r", "java"
  std::string_view program;  // looked up in the image
  std::string_view package;  // that has it, in Debian
  Interrupt interrupt = Interrupt::kSignal;
};

// nullopt: there is no driver for it.
std::optional<Language> find_language(std::string_view alias);
std::vector<std::string> interpreter_command(const Language& language);
// "K=V" that the driver needs.
std::vector<std::string> interpreter_environment(const Language& language);
// What a listed process is, if it is an interpreter of ours.
std::optional<Language> language_of(const guest::ProcessInfo& process);

}  // namespace atl::control
