// The guest of the runtime's tests: the test binary itself, started again as PID 1 of a cell.
//
// The runtime starts any executable, so the tests need no second program: when this binary finds
// itself as PID 1 with a listening socket on descriptor 3 it answers one line per connection with
// the output of the probe of that name, instead of running tests. CellFixture puts the libraries
// it needs into the cell's layer.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace atl::runtime::testing {

// A probe runs inside the cell in a forked child, with what follows its name on the line, and
// its return value goes back to the test.
using Probe = std::function<std::string(const std::string& argument)>;

// Registers a probe. Used by static initialisers of the test files only.
class ProbeEntry {
 public:
  ProbeEntry(std::string name, Probe probe);
};
std::map<std::string, Probe, std::less<>>& probes();

}  // namespace atl::runtime::testing

// PROBE(read_file) { return ...argument...; }
#define PROBE(name)                                                                         \
  static std::string probe_##name(const std::string& argument);                             \
  static const ::atl::runtime::testing::ProbeEntry probe_entry_##name{#name, probe_##name}; \
  static std::string probe_##name([[maybe_unused]] const std::string& argument)
