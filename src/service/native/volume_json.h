// Volumes between JSON and control's values.
#pragma once

#include "base/json.h"
#include "control/volumes.h"

namespace atl::service::native {

Result<control::VolumeCreate> parse_volume_create(const Json& body);
Result<control::VolumeFork> parse_volume_fork(const Json& body);
Json volume_json(const control::VolumeView& view);
Json volume_snapshot_json(const control::VolumeSnapshot& snapshot);

}  // namespace atl::service::native
