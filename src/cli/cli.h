// The `atoll` command line: everything a person types except `serve`.
//
// The room speaks to the daemon only through its public HTTP API, so whatever it can do, any
// client can do. What it needs from the machine itself (the host checks of `doctor`) comes in as a
// value of Environment, filled in by daemon/main.cpp; the room knows nothing of runtimes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace atl::cli {

struct DoctorCheck {
  enum class Verdict : std::uint8_t { kOk, kDegraded, kMissing };
  std::string name;  // "user namespaces"
  Verdict verdict = Verdict::kOk;
  std::string finding;  // what was seen
  std::string advice;   // how to fix it, empty when fine
};

// A command that main() handles itself; named here so that help and suggestions know it.
struct OtherCommand {
  std::string name;
  std::string summary;
  std::string help = {};  // the whole text; completion finds its options there
};

struct Environment {
  std::function<std::vector<DoctorCheck>()> host_checks;  // empty: doctor only asks the API
  std::string version;
  std::vector<OtherCommand> other_commands;
};

// Runs one command and returns the exit status of the process. Blocks SIGINT, SIGTERM and SIGHUP
// and ignores SIGPIPE from then on: the caller shall only return the status.
int main(int argc, char** argv, const Environment& environment);

}  // namespace atl::cli
