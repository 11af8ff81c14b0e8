// What a run of atoll-bench does, as JSON: contestants that take turns, round by round.
//
//   {"rounds": 100, "warmup": 5, "workers": 1, "seconds": 0, "silence_ms": 120000,
//    "contestants": [
//     {"name": "atoll", "url": "http://...", "authorization": "Bearer ...",
//      "setup": [STEP...], "timed": [STEP...], "after": [STEP...], "teardown": [STEP...],
//      "items": ["id"...], "operations": 0, "collect": "sandbox"},
//     {"name": "bwrap", "command": ["bwrap", ...]},
//     {"name": "floor", "floor": ["atoll-floor", ...]}]}
//   STEP: {"method", "path", "body", "type", "save": {"sandbox": "sandbox_id"}, "expect": "text"}
//
// A worker has one connection and its own variables: `save` keeps a string member of an answer, and
// {sandbox} in a path or a body is replaced by it; {item} by one of the items, each of which is
// used once. `setup` and `teardown` run once for each worker, `after` follows each operation,
// untimed. Whoever says nothing for silence_ms hangs: that ends the run instead of hanging it too.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace atl::bench {

struct Step {
  std::string method;
  std::string path;
  std::string body;
  std::string type;
  std::vector<std::pair<std::string, std::string>> save;  // variable, member
  std::string expect;                                     // a piece of the answer
};

struct Contestant {
  std::string name;
  std::string url;
  std::string authorization;
  std::vector<Step> setup, timed, after, teardown;
  std::vector<std::string> items;
  std::size_t operations = 0;  // in a turn; 0: one for each worker
  std::string collect;         // a variable whose values are told
  std::vector<std::string> command;
  std::vector<std::string> floor;
};

struct Plan {
  std::size_t rounds = 1;
  std::size_t warmup = 0;
  std::size_t workers = 1;
  std::size_t silence_ms = 120'000;
  double seconds = 0;  // a turn lasts so long instead of a number of operations
  std::vector<Contestant> contestants;
};

Result<Plan> parse_plan(std::string_view text);

}  // namespace atl::bench
