#include "runtime/namespaces/guest_image.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/strings.h"

namespace atl::runtime::namespaces {
namespace {

constexpr unsigned kMemfdExec = 0x10;  // MFD_EXEC, since kernel 6.3

Fd make_memory_file() {
  Fd fd{::memfd_create("atoll-guest", MFD_CLOEXEC | MFD_ALLOW_SEALING | kMemfdExec)};
  if (!fd && errno == EINVAL) {
    fd = Fd{::memfd_create("atoll-guest", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  }
  return fd;
}

}  // namespace

Result<Fd> load_guest_image(const std::string& path) {
  const Fd source{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat status{};
  if (!source || ::fstat(source.get(), &status) != 0) {
    return fail_errno(concat("opening the guest binary ", path));
  }
  if (!S_ISREG(status.st_mode) || status.st_size <= 0 ||
      static_cast<std::size_t>(status.st_size) > kMaxGuestBytes) {
    return fail(Code::kInvalidArgument, concat("the guest binary ", path, " is no program"));
  }
  const Fd memory = make_memory_file();
  if (!memory) {
    return fail_errno("making the guest's memory file");
  }
  for (off_t left = status.st_size; left > 0;) {
    const ssize_t copied =
        ::sendfile(memory.get(), source.get(), nullptr, static_cast<std::size_t>(left));
    if (copied <= 0) {
      return fail_errno(concat("copying the guest binary ", path));
    }
    left -= copied;
  }
  if (::fchmod(memory.get(), 0555) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS,
              F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return fail_errno("sealing the guest's memory file");
  }
  // A descriptor open for writing makes execveat fail with ETXTBSY: open it again for reading.
  Fd image{::open(concat("/proc/self/fd/", memory.get()).c_str(), O_RDONLY | O_CLOEXEC)};
  if (!image) {
    return fail_errno("opening the guest's memory file");
  }
  return image;
}

}  // namespace atl::runtime::namespaces
