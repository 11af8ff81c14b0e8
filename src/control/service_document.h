// Services as the document of the API, which is also how they are stored. Reading is strict: the
// message names the field.
#pragma once

#include <vector>

#include "base/json.h"
#include "base/json_fields.h"
#include "control/service.h"

namespace atl::control {

// The services in the field "services" of an object; none when it is absent.
Result<std::vector<Service>> parse_services(const Fields& fields);
// Of an array that was stored.
Result<std::vector<Service>> parse_services(const Json& array);
Json service_json(const Service& service);
Json services_json(const std::vector<Service>& services);

// Why it cannot be published on its own: not_public, missing_runtime, manual_runtime,
// missing_command, missing_function.
std::vector<std::string> publish_blockers(const Service& service);

}  // namespace atl::control
