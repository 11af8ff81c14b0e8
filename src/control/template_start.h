// How sandboxes of a template begin, beyond its files: what runs in them from their first moment.
#pragma once

#include <string>

#include "base/json.h"

namespace atl::control {

struct TemplateStart {
  std::string shell;    // for login shells; not empty: steps have prepared the files
  std::string command;  // empty: nothing runs
  std::string ready;    // succeeds once the command is ready; empty: after a while
  std::string state;    // the snapshot in which it runs; empty: it is started with each sandbox
  bool operator==(const TemplateStart&) const = default;
};

inline Json to_json(const TemplateStart& start) {
  return Json::object({{"shell", start.shell},
                       {"command", start.command},
                       {"ready", start.ready},
                       {"state", start.state}});
}

// Our own JSON back; what is missing becomes empty.
inline TemplateStart start_from_json(const Json* json) {
  const auto text = [json](std::string_view name) {
    const Json* value = json == nullptr ? nullptr : json->find(name);
    return value != nullptr && value->as_string() != nullptr ? *value->as_string() : std::string{};
  };
  return {text("shell"), text("command"), text("ready"), text("state")};
}

// The start command in the table of a sandbox's processes.
inline constexpr const char* kStartProcess = "start-command";

}  // namespace atl::control
