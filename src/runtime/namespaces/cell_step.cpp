#include "runtime/namespaces/cell_step.h"

#include <array>
#include <cstring>

#include "base/strings.h"

namespace atl::runtime::namespaces {
namespace {

struct StepText {
  std::string_view name;
  std::string_view advice;  // empty: the errno says enough
};

// Indexed by CellStep.
constexpr std::array<StepText, kCellStepCount + 1> kTexts = {{
    {"nothing", ""},
    {"closing inherited descriptors", ""},
    {"joining its cgroups", "check that the cgroup hierarchies are mounted read-write"},
    {"making mounts private", "the node needs CAP_SYS_ADMIN and its own mount namespace"},
    {"entering the stage directory", "the stage directory must exist and belong to the node"},
    {"building its network",
     "atoll doctor says whether this kernel can; raise net.core.optmem_max if memory is short"},
    {"setting the host name", ""},
    {"joining a new session keyring", "raise kernel.keys.root_maxkeys"},
    {"setting resource limits", ""},
    {"waiting for its mounts", "the node stopped while it created the cell"},
    {"becoming root of its user namespace", ""},
    {"creating its cgroup namespace", "raise user.max_cgroup_namespaces"},
    {"attaching the layers", "check fs.mount-max and that each layer directory is readable"},
    {"mounting the overlay",
     "the kernel must be 5.19 or newer with overlayfs (modprobe overlay), each layer and the "
     "writable directory must be on ext4, xfs or btrfs, and the writable directory must hold "
     "'upper' and 'work' and be used by no other cell"},
    {"checking that its root is writable",
     "overlayfs fell back to read-only because it could not make its work directory: the "
     "writable directory is full or over its quota"},
    {"building /dev", "the image's /dev must be a directory"},
    {"mounting /proc",
     "the image's /proc must be a directory; the host's /proc must be mounted without anything "
     "on top of it (inside a container the node needs an unmasked /proc)"},
    {"building /sys",
     "the image's /sys must be a directory; the host's /sys must be mounted without anything on "
     "top of it (inside a container the node needs an unmasked /sys)"},
    {"mounting /tmp", "the image's /tmp must be a directory"},
    {"showing the views", "each of them must be a directory of the pool"},
    {"preparing the restore of its memory", "the image's /proc and /dev must be directories"},
    {"changing the root",
     "pivot_root refuses an initramfs root: start the node from a root file system that is a "
     "mount of its own"},
    {"writing its name into /etc", "check the free space of the writable directory"},
    {"mounting its volumes",
     "each mount point must be a directory of the sandbox's own root, or nothing yet; it must not "
     "be the root itself nor lie on another mount"},
    {"setting its clocks", "the kernel needs CONFIG_TIME_NS"},
    {"arranging the guest's descriptors", ""},
    {"entering the volume", ""},
    {"entering its Landlock domain", ""},
    {"dropping the bounding set", ""},
    {"loading the seccomp filter", "the kernel needs CONFIG_SECCOMP_FILTER"},
    {"dropping capabilities", ""},
    {"starting the guest", "the guest binary must be a static executable of this architecture"},
}};

}  // namespace

std::string_view cell_step_name(CellStep step) {
  const auto index = static_cast<std::uint32_t>(step);
  return index <= kCellStepCount ? kTexts[index].name : "an unknown step";
}

Error cell_step_error(const StepReport& report) {
  if (report.step == 0 || report.step > kCellStepCount) {
    return Error{Code::kInternal, "the cell reported an unknown step"};
  }
  const StepText& text = kTexts[report.step];
  Error error = errno_error(concat("the cell failed while ", text.name), report.error_number);
  if (!text.advice.empty()) {
    error.message += concat(" (", text.advice, ")");
  }
  // A missing file here is a fault of the host or the image, never "no such cell".
  if (error.code == Code::kNotFound || error.code == Code::kAlreadyExists) {
    error.code = Code::kFailedPrecondition;
  }
  return error;
}

}  // namespace atl::runtime::namespaces
