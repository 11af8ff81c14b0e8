#include "image/archive.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/fd.h"
#include "base/strings.h"
#include "image/tool.h"

namespace atl::image {

Result<> pack(const std::string& tree, const std::vector<std::string>& emptied_directories,
              const std::string& archive) {
  std::vector<std::string> argv{"tar",
                                "--create",
                                concat("--file=", archive),
                                "--use-compress-program=zstd -T0 -10 --check",
                                "--format=posix",
                                "--pax-option=delete=atime,delete=ctime",
                                "--sort=name",
                                "--numeric-owner",
                                "--acls",
                                "--xattrs",
                                "--xattrs-include=*",
                                "--anchored",
                                "--wildcards"};
  for (const std::string& directory : emptied_directories) {
    argv.push_back(concat("--exclude=./", directory, "/*"));
  }
  argv.insert(argv.end(), {concat("--directory=", tree), "."});
  TRY_DO(run_tool({.argv = std::move(argv)}));
  const Fd fd{::open(archive.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!fd || ::fsync(fd.get()) != 0) {
    return fail_errno(concat("syncing ", archive));
  }
  return {};
}

Result<> unpack(const std::string& archive, const std::string& directory,
                const Progress& progress) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error) ||
      !std::filesystem::is_empty(directory, error)) {
    return fail(Code::kFailedPrecondition, concat(directory, " is not an empty directory"));
  }
  if (progress) {
    progress("unpacking", -1);
  }
  TRY_DO(run_tool({.argv = {"tar", "--extract", concat("--file=", archive),
                            "--use-compress-program=zstd", "--numeric-owner", "--same-owner",
                            "--preserve-permissions", "--acls", "--xattrs", "--xattrs-include=*",
                            "--delay-directory-restore", concat("--directory=", directory)}}));
  if (progress) {
    progress("unpacking", 1);
  }
  return {};
}

}  // namespace atl::image
