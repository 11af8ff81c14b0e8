// What a client sends to have a template built. Pure: JSON in, values out.
#pragma once

#include "control/template_jobs.h"

namespace atl::service::e2b {

// Of POST /v2/templates/{id}/builds/{build}; the files of COPY are still to be found.
Result<control::StepsBuild> parse_build_start(const Json& body);

}  // namespace atl::service::e2b
