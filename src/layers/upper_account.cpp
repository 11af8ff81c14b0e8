#include "layers/upper_account.h"

#include <sys/xattr.h>

#include <array>
#include <cerrno>

#include "base/fd.h"
#include "base/strings.h"
#include "layers/directory.h"
#include "layers/limits.h"

namespace atl::layers {
namespace {

// Only root of the host can have these; and the directory is not part of the sandbox's tree.
constexpr const char* kInherited = "trusted.atoll.inherited_bytes";
constexpr const char* kBequeathed = "trusted.atoll.bequeathed_bytes";

Result<std::uint64_t> read_number(const TreePlace& volume, const char* attribute) {
  TRY(const Fd fd, open_directory(volume.parent_fd, volume.name));
  std::array<char, 32> text{};
  const ssize_t size = ::fgetxattr(fd.get(), attribute, text.data(), text.size());
  if (size < 0) {
    return errno == ENODATA ? Result<std::uint64_t>{0}
                            : fail_errno(concat("reading the account of ", volume.name));
  }
  const auto number = parse_u64({text.data(), static_cast<std::size_t>(size)});
  if (!number) {
    return fail(Code::kDataLoss, concat("the account of ", volume.name, " is damaged"));
  }
  return *number;
}

Result<> write_number(const TreePlace& volume, const char* attribute, std::uint64_t number) {
  TRY(const Fd fd, open_directory(volume.parent_fd, volume.name));
  const std::string text = std::to_string(number);
  if (::fsetxattr(fd.get(), attribute, text.data(), text.size(), 0) != 0) {
    return fail_errno(concat("writing the account of ", volume.name));
  }
  return {};
}

}  // namespace

Result<UpperUsage> upper_usage(Volumes& volumes, const TreePlace& upper) {
  TRY(UpperUsage usage, volumes.usage(upper.parent_fd, upper.name));
  if (volumes.has_quota()) {
    TRY(const std::uint64_t inherited, read_number(upper, kInherited));
    usage.used_bytes += inherited;
    usage.limit_bytes += usage.limit_bytes == 0 ? 0 : inherited;
  }
  return usage;
}

Result<> limit_upper(Volumes& volumes, const TreePlace& upper, std::uint64_t limit_bytes) {
  if (limit_bytes != 0 && volumes.has_quota()) {
    TRY(const std::uint64_t inherited, read_number(upper, kInherited));
    limit_bytes = limit_bytes > inherited + kMinUpperLimitBytes ? limit_bytes - inherited
                                                                : kMinUpperLimitBytes;
  }
  return volumes.set_limit(upper.parent_fd, upper.name, limit_bytes);
}

Result<> prepare_inheritance(Volumes& volumes, const TreePlace& upper) {
  if (!volumes.has_quota()) {
    return {};
  }
  TRY(const UpperUsage usage, upper_usage(volumes, upper));
  auto written = write_number(upper, kBequeathed, usage.used_bytes);
  if (written || usage.limit_bytes == 0) {
    return written;
  }
  // A full disk has no room for its own account: it gets some for a moment.
  TRY_DO(limit_upper(volumes, upper, usage.limit_bytes + kAccountRoomBytes));
  written = write_number(upper, kBequeathed, usage.used_bytes);
  TRY_DO(limit_upper(volumes, upper, usage.limit_bytes));
  return written;
}

Result<> inherit(const TreePlace& snapshot, const TreePlace& upper) {
  TRY(const std::uint64_t bytes, read_number(snapshot, kBequeathed));
  return write_number(upper, kInherited, bytes);
}

}  // namespace atl::layers
