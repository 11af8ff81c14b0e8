#include "layers/loop_device.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

#include "base/strings.h"
#include "layers/directory.h"
#include "layers/limits.h"

namespace atl::layers {
namespace {

// The kernel writes device numbers into loop_info64 in its own encoding.
bool same_device(std::uint64_t kernel_encoded, dev_t device) {
  const auto major_number = static_cast<unsigned>((kernel_encoded >> 8) & 0xfff);
  const auto minor_number =
      static_cast<unsigned>((kernel_encoded & 0xff) | ((kernel_encoded >> 12) & 0xfff00));
  return major_number == major(device) && minor_number == minor(device);
}

bool is_behind(int loop_fd, const struct stat& file) {
  loop_info64 info{};
  return ::ioctl(loop_fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_inode == file.st_ino &&
         same_device(info.lo_device, file.st_dev);
}

// Direct I/O keeps every block out of the host's page cache, where it would be a second time. Not
// every file system can.
bool configure(int loop_fd, int file_fd) {
  loop_config config{};
  config.fd = static_cast<std::uint32_t>(file_fd);
  config.block_size = 4096;
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
  if (::ioctl(loop_fd, LOOP_CONFIGURE, &config) == 0) {
    return true;
  }
  if (errno == EBUSY) {
    return false;
  }
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
  return ::ioctl(loop_fd, LOOP_CONFIGURE, &config) == 0;
}

}  // namespace

std::optional<LoopDevice> LoopDevice::find(int file_fd) {
  struct stat file{};
  const auto block_devices = open_directory(AT_FDCWD, "/sys/block");
  if (!block_devices || ::fstat(file_fd, &file) != 0) {
    return std::nullopt;
  }
  const auto names = list_names(block_devices->get());
  if (!names) {
    return std::nullopt;
  }
  for (const std::string& name : *names) {
    // The attribute exists only while a file is attached.
    if (!name.starts_with("loop") ||
        ::faccessat(block_devices->get(), (name + "/loop/backing_file").c_str(), F_OK, 0) != 0) {
      continue;
    }
    std::string path = "/dev/" + name;
    Fd fd{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
    if (fd && is_behind(fd.get(), file)) {
      return LoopDevice{std::move(path), std::move(fd)};
    }
  }
  return std::nullopt;
}

Result<LoopDevice> LoopDevice::attach(int file_fd) {
  const Fd control{::open("/dev/loop-control", O_RDWR | O_CLOEXEC)};
  if (!control) {
    return fail_errno("opening /dev/loop-control");
  }
  for (unsigned attempt = 0; attempt < kMaxLoopAttempts; ++attempt) {
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) {
      return fail_errno("looking for a free loop device");
    }
    std::string path = concat("/dev/loop", number);
    Fd fd{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
    if (!fd) {
      return fail_errno(concat("opening ", path));
    }
    if (configure(fd.get(), file_fd)) {
      return LoopDevice{std::move(path), std::move(fd)};
    }
    if (errno != EBUSY) {
      return fail_errno(concat("attaching a file to ", path));
    }
    // Somebody else took it between the two calls.
  }
  return fail(Code::kUnavailable, "every loop device was taken while we tried to use it");
}

Result<> LoopDevice::detach() {
  if (!fd_) {
    return {};
  }
  const std::string attribute = concat("/sys/block/", path_.substr(5), "/loop/backing_file");
  const auto backing_file = read_file(attribute);
  (void)::ioctl(fd_.get(), LOOP_CLR_FD, 0);
  fd_.reset();
  // The mounts of a namespace whose last process has just gone are taken down a little later by a
  // kernel thread that tells nobody, hence the short naps.
  for (unsigned waited_ms = 0; waited_ms < kDetachWaitMs; waited_ms += kDetachNapMs) {
    const auto now = read_file(attribute);
    if (!backing_file || !now || *now != *backing_file) {
      return {};
    }
    ::usleep(kDetachNapMs * 1000);
  }
  return fail(Code::kFailedPrecondition,
              concat(path_, " is still in use, for example by the mounts of a running sandbox"));
}

}  // namespace atl::layers
