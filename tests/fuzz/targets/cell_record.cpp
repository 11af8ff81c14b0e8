// The node's records on disk, which a killed writer may have left in any state.
#include "fuzz.h"
#include "node/cell_records.h"

namespace atl::fuzz {

void cell_record(std::string_view input) {
  const auto cell = node::parse_record("rs-1", input);
  if (!cell) {
    return;
  }
  const auto text = node::format_record(*cell);
  const auto again = node::parse_record("rs-1", text);
  CHECK(again && node::format_record(*again) == text);
}

Seeds cell_record_seeds() {
  return {node::format_record({.id = "rs-1",
                               .state = node::StoredCell::State::kRunning,
                               .pid = 4711,
                               .start_time = 123456,
                               .uid_base = 1879048192,
                               .fresh_upper = true,
                               .layers = {"a", "b"}}),
          node::format_record({.id = "rs-1"}),
          "state nonsense\n",
          "pid 99999999999\nstate dead\n",
          "state running",
          "layers ../x\n"};
}

}  // namespace atl::fuzz
