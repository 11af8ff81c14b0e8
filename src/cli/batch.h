// Batch: the same call for each of several things; one that fails does not keep the others.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cli/commands.h"

namespace atl::cli {

struct Batch {
  std::string_view doing;  // "deleting sandboxes", for the progress line
  std::string_view done;   // "deleted": the list of what `act` gave, with -o json
  // With one of the words as they were typed.
  std::function<Task<Json>(std::string word)> act;
};

// Prints each word that is done; the status is that of the last failure. A server that is not there
// and an interruption end it at once.
Task<int> run_batch(CommandContext& context, const std::vector<std::string>& words,
                    const Batch& batch);

}  // namespace atl::cli
