#include "daemon/admin_key.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/random.h"
#include "base/strings.h"

namespace atl::daemon {
namespace {

constexpr std::string_view kPrefix = "atoll_";
constexpr std::size_t kDigits = 40;
constexpr std::size_t kMaxKeyFileBytes = 4096;

bool is_key(std::string_view text) {
  return text.size() == kPrefix.size() + kDigits && text.starts_with(kPrefix) &&
         std::ranges::all_of(text.substr(kPrefix.size()), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

Result<> check_private_file(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) {
    return fail_errno(concat("looking at ", path));
  }
  if (!S_ISREG(info.st_mode) || info.st_uid != 0 || (info.st_mode & 077) != 0) {
    return fail(Code::kPermissionDenied,
                concat(path,
                       " must be a plain file of root that nobody else can read; run: "
                       "chown root ",
                       path, " && chmod 600 ", path));
  }
  return {};
}

Result<std::string> load_or_make_admin_key(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) {
    const std::string key = concat(kPrefix, random_hex(kDigits));
    TRY_DO(replace_file(path, key + "\n", {.mode = 0600, .durable = true}));
    return sha256(key);
  }
  TRY_DO(check_private_file(path));
  TRY(const std::string text, read_file(path, kMaxKeyFileBytes));
  const std::string_view key = trim(text);
  if (!is_key(key)) {
    return fail(Code::kDataLoss, concat(path, " has no key in it (", kPrefix, " and ", kDigits,
                                        " hex digits); remove it to have a new one made"));
  }
  return sha256(key);
}

Result<Fd> seal_in_memory(const std::string& bytes) {
  Fd fd{::memfd_create("atoll-handed-over", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!fd) {
    return fail_errno("making a memory file");
  }
  TRY_DO(write_all(fd.get(), bytes));
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) !=
      0) {
    return fail_errno("sealing a memory file");
  }
  return fd;
}

}  // namespace atl::daemon
