// The steps of building a cell, so that a failure can say where it happened and what to change.
//
// The child reports a failed step as plain data (it must not allocate); the parent turns it into
// an Error with the advice that belongs to the step.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace atl::runtime::namespaces {

enum class CellStep : std::uint32_t {
  kDescriptors = 1,
  kCgroups,
  kPropagation,
  kStageDirectory,
  kNetwork,
  kHostname,
  kKeyring,
  kResourceLimits,
  kWaitForMounts,
  kIdentity,
  kCgroupNamespace,
  kLayers,
  kOverlay,
  kWritableRoot,
  kDevices,
  kProc,
  kSys,
  kTmp,
  kViews,
  kRestore,
  kPivotRoot,
  kEtcFiles,
  kVolumes,
  kTime,
  kGuestDescriptors,
  kVolumeRoot,
  kLandlock,
  kBoundingSet,
  kSeccomp,
  kCapabilities,
  kExec,
};
inline constexpr std::uint32_t kCellStepCount = 31;

// What the child writes to its channel. step 0: every step is done, execveat comes next.
struct StepReport {
  std::uint32_t step = 0;
  std::int32_t error_number = 0;
};

std::string_view cell_step_name(CellStep step);
Error cell_step_error(const StepReport& report);

}  // namespace atl::runtime::namespaces
