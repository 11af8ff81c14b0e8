// The cache of built archives: one file per builtin and version, whole or not there.
//
//   default-<version>-<machine>.tar.zst       the archive
//   default-<version>-<machine>.tar.zst.ok    "size N\nsha256 HEX\n", written last
//   .lock                                     flock'd by the one builder
//   .build-XXXXXX/                            a build in progress, 0700; stale ones go at the next
//
// An archive counts only with its marker, with the size the marker names, and when nobody but root
// or us can have written it: it becomes the root file system of sandboxes.
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/fd.h"
#include "base/strings.h"
#include "image/archive.h"
#include "image/bootstrap.h"
#include "image/recipe.h"
#include "image/room.h"
#include "image/tool.h"

namespace atl::image {
namespace {

constexpr std::string_view kMarkerSuffix = ".ok";
constexpr std::string_view kBuildPrefix = ".build-";

std::string archive_path(const BuiltinTemplate& builtin, const std::string& cache_dir) {
  utsname names{};
  ::uname(&names);
  return concat(cache_dir, "/", builtin.name, "-", builtin.version, "-", names.machine, ".tar.zst");
}

Result<std::string> sha256_of(const std::string& path) {
  const Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!fd) {
    return fail_errno(concat("opening ", path));
  }
  const std::unique_ptr<EVP_MD_CTX, decltype(&::EVP_MD_CTX_free)> context{::EVP_MD_CTX_new(),
                                                                          &::EVP_MD_CTX_free};
  CHECK(context != nullptr && ::EVP_DigestInit_ex(context.get(), ::EVP_sha256(), nullptr) == 1);
  std::vector<char> buffer(1U << 20);
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0) {
      return fail_errno(concat("reading ", path));
    }
    if (got == 0) {
      break;
    }
    ::EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(got));
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  ::EVP_DigestFinal_ex(context.get(), digest, &size);
  return hex({reinterpret_cast<const char*>(digest), size});
}

// Held while building. The kernel drops it when the builder dies.
Result<Fd> lock_cache(const std::string& cache_dir, const Progress& progress) {
  const std::string path = cache_dir + "/.lock";
  Fd fd{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!fd) {
    return fail_errno(concat("opening ", path));
  }
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
    return fd;
  }
  progress("waiting for another build", -1);
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) {
      return fail_errno(concat("locking ", path));
    }
  }
  return fd;
}

Result<> remove_directory(const std::string& path) {
  // One file system only: whatever might be mounted in there is not ours to delete.
  return run_tool({.argv = {"rm", "-rf", "--one-file-system", "--", path}});
}

// REQUIRES: the lock. Then every build directory belongs to a dead builder.
Result<> remove_stale_builds(const std::string& cache_dir) {
  std::error_code error;
  std::vector<std::string> stale;
  for (const auto& entry : std::filesystem::directory_iterator{cache_dir, error}) {
    if (entry.path().filename().string().starts_with(kBuildPrefix)) {
      stale.push_back(entry.path().string());
    }
  }
  for (const std::string& path : stale) {
    TRY_DO(remove_directory(path));
  }
  return {};
}

Result<> build_into(const Recipe& recipe, const std::string& work_directory,
                    const std::string& archive, const Progress& progress) {
  TRY_DO(bootstrap(recipe, work_directory, progress));
  progress("packing the archive", 0.88);
  const std::string temporary = work_directory + "/archive.tar.zst";
  TRY_DO(pack(work_directory + "/tree", recipe.emptied_directories, temporary));
  progress("checking the archive", 0.98);
  TRY(const std::string digest, sha256_of(temporary));
  const auto size = std::filesystem::file_size(temporary);
  const std::string marker = concat(archive, kMarkerSuffix);
  if (::unlink(marker.c_str()) != 0 && errno != ENOENT) {
    return fail_errno(concat("removing ", marker));
  }
  if (::chmod(temporary.c_str(), 0644) != 0 || ::rename(temporary.c_str(), archive.c_str()) != 0) {
    return fail_errno(concat("renaming to ", archive));
  }
  return replace_file(marker, concat("size ", size, "\nsha256 ", digest, "\n"),
                      {.mode = 0644, .durable = true});
}

}  // namespace

BuiltinTemplate default_template() {
  const Recipe recipe = default_recipe();
  return {.name = recipe.name, .version = recipe_version(recipe)};
}

std::vector<BuiltinTemplate> builtin_templates() {
  std::vector<BuiltinTemplate> builtins;
  for (const Recipe& recipe : builtin_recipes()) {
    builtins.push_back({.name = recipe.name, .version = recipe_version(recipe)});
  }
  return builtins;
}

std::string layer_id(const BuiltinTemplate& builtin) {
  return concat(builtin.name, "-", builtin.version);
}

std::string default_cache_dir() {
  const char* set = std::getenv("ATOLL_CACHE_DIR");
  return set != nullptr && *set != '\0' ? set : "/var/cache/atoll";
}

Result<std::string> find_cached(const BuiltinTemplate& builtin, const std::string& cache_dir) {
  const std::string path = archive_path(builtin, cache_dir);
  const auto marker = read_file(concat(path, kMarkerSuffix), 4096);
  struct stat found{};
  if (!marker || ::lstat(path.c_str(), &found) != 0) {
    return fail(Code::kNotFound, concat("no complete archive at ", path));
  }
  const bool ours = found.st_uid == 0 || found.st_uid == ::geteuid();
  if (!S_ISREG(found.st_mode) || !ours || (found.st_mode & 022) != 0) {
    return fail(Code::kNotFound,
                concat(path, " is not used: it is not a plain file that only root can write"));
  }
  const std::string_view first_line = split(*marker, '\n').front();
  if (first_line != concat("size ", found.st_size)) {
    return fail(Code::kNotFound, concat(path, " is not complete"));
  }
  return path;
}

Result<std::string> build(const BuiltinTemplate& builtin, const std::string& cache_dir,
                          const Progress& wanted_progress) {
  const Progress progress = wanted_progress ? wanted_progress : [](std::string_view, double) {};
  TRY(const Recipe recipe, find_recipe(builtin.name));
  if (builtin.version != recipe_version(recipe)) {
    return fail(Code::kFailedPrecondition,
                concat("version ", builtin.version, " of template ", builtin.name,
                       " is not the one this program builds"));
  }
  if (::geteuid() != 0) {
    return fail(Code::kPermissionDenied, "building a template needs root");
  }
  std::error_code error;
  std::filesystem::create_directories(cache_dir, error);
  if (error) {
    return fail(errno_error(concat("creating ", cache_dir), error.value()));
  }
  TRY(const Fd lock, lock_cache(cache_dir, progress));
  if (auto cached = find_cached(builtin, cache_dir)) {
    return cached;  // somebody else was faster
  }
  TRY_DO(remove_stale_builds(cache_dir));
  std::string work_directory = concat(cache_dir, "/", kBuildPrefix, "XXXXXX");
  if (::mkdtemp(work_directory.data()) == nullptr) {
    return fail_errno(concat("creating a build directory in ", cache_dir));
  }
  const std::string archive = archive_path(builtin, cache_dir);
  auto built = build_into(recipe, work_directory, archive, progress);
  const auto removed = remove_directory(work_directory);
  if (!built) {
    return fail(std::move(built).error());
  }
  TRY_DO(removed);
  progress("done", 1);
  return archive;
}

}  // namespace atl::image
