#include "image/bootstrap.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/fd.h"
#include "base/strings.h"
#include "image/apt_sources.h"
#include "image/bootstrap_progress.h"
#include "image/tool.h"

namespace atl::image {
namespace {

constexpr unsigned kUserId = 1000;

// Opens below `tree_fd` and follows no symlink at all, so a link in the tree cannot lead us out.
Result<Fd> open_in_tree(int tree_fd, const std::string& path, std::uint64_t flags, unsigned mode) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, tree_fd, path.c_str(), &how, sizeof how);
  if (fd < 0) {
    return fail_errno(concat("opening ", path, " in the new tree"));
  }
  return Fd{static_cast<int>(fd)};
}

// The directory that holds `path`, and the last component.
Result<std::pair<Fd, std::string>> open_parent(int tree_fd, const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash);
  TRY(Fd fd, open_in_tree(tree_fd, parent, O_PATH | O_DIRECTORY, 0));
  return std::pair{std::move(fd), slash == std::string::npos ? path : path.substr(slash + 1)};
}

Result<> write_tree_file(int tree_fd, const RecipeFile& file) {
  TRY(const auto parent, open_parent(tree_fd, file.path));
  const auto& [directory, name] = parent;
  if (::unlinkat(directory.get(), name.c_str(), 0) != 0 && errno != ENOENT) {
    return fail_errno(concat("replacing ", file.path));
  }
  TRY(const Fd fd, open_in_tree(directory.get(), name, O_WRONLY | O_CREAT | O_EXCL, file.mode));
  TRY_DO(write_all(fd.get(), file.content));
  if (::fchmod(fd.get(), file.mode) != 0) {
    return fail_errno(concat("setting the mode of ", file.path));
  }
  return {};
}

Result<> make_tree_link(int tree_fd, const RecipeLink& link) {
  TRY(const auto parent, open_parent(tree_fd, link.path));
  if (::symlinkat(link.target.c_str(), parent.first.get(), parent.second.c_str()) != 0) {
    return fail_errno(concat("making the link ", link.path));
  }
  return {};
}

// Proxies come from the environment or from apt's own configuration. They are given to the child
// only: a proxy's address may hold a password.
std::vector<std::string> proxy_environment() {
  std::vector<std::string> environment;
  for (const char* scheme : {"http", "https"}) {
    const std::string variable = concat(scheme, "_proxy");
    std::string value;
    if (const char* set = std::getenv(variable.c_str()); set != nullptr) {
      value = set;
    } else {
      const auto asked = run_tool(
          {.argv = {"apt-config", "dump", "--format", "%v%n",
                    concat("Acquire::", scheme, "::Proxy")},
           .on_line = [&](std::string_view line) { value = value.empty() ? line : value; }});
      if (!asked) {
        value.clear();
      }
    }
    if (!value.empty() && value != "DIRECT") {
      environment.push_back(concat(variable, "=", value));
    }
  }
  if (const char* exceptions = std::getenv("no_proxy"); exceptions != nullptr) {
    environment.push_back(concat("no_proxy=", exceptions));
  }
  return environment;
}

// A frozen mirror serves release files that have expired; a host that uses one says so in apt's
// configuration, and the image uses the same mirror.
bool host_ignores_release_expiry() {
  std::string value;
  const auto asked =
      run_tool({.argv = {"apt-config", "dump", "--format", "%v%n", "Acquire::Check-Valid-Until"},
                .on_line = [&](std::string_view line) { value = to_lower(line); }});
  return asked && (value == "false" || value == "no" || value == "0");
}

std::vector<std::string> mmdebstrap_arguments(const Recipe& recipe, const std::string& tree,
                                              const std::string& sources_file) {
  std::string packages;
  for (const std::string& package : recipe.packages) {
    packages += concat(packages.empty() ? "" : ",", package);
  }
  std::vector<std::string> argv{"unshare",
                                "--mount",
                                "--propagation",
                                "private",
                                "--",
                                "mmdebstrap",
                                "--verbose",
                                "--mode=root",
                                "--variant=minbase",
                                "--format=directory",
                                "--aptopt=Acquire::Languages \"none\"",
                                concat("--include=", packages)};
  if (host_ignores_release_expiry()) {
    argv.emplace_back("--aptopt=Acquire::Check-Valid-Until \"false\"");
  }
  for (const std::string& option : recipe.dpkg_options) {
    argv.push_back(concat("--dpkgopt=", option));
  }
  argv.insert(argv.end(), {recipe.suite, tree, sources_file});
  return argv;
}

Result<> install_packages(const Recipe& recipe, const std::string& work_directory,
                          const std::vector<AptSource>& sources, const Progress& progress) {
  const std::string sources_file = work_directory + "/debian.sources";
  TRY_DO(replace_file(sources_file, format_sources(sources), {.mode = 0600}));
  BootstrapProgress state;
  progress(state.step(), state.fraction());
  // The line that says what went wrong comes well before mmdebstrap's own last words.
  std::string complaint;
  const auto on_line = [&](std::string_view line) {
    if (complaint.empty() &&
        (line.starts_with("E: ") || line.starts_with("Err:") || line.starts_with("dpkg: error"))) {
      append_printable(complaint, line);
    }
    if (state.on_line(line)) {
      progress(state.step(), state.fraction());
    }
  };
  auto ran = run_tool({.argv = mmdebstrap_arguments(recipe, work_directory + "/tree", sources_file),
                       .environment = proxy_environment(),
                       .on_line = on_line});
  if (!ran && !complaint.empty()) {
    return fail(std::move(ran).error().note(concat("bootstrapping Debian: ", complaint)));
  }
  return ran;
}

Result<> add_user(const std::string& tree) {
  const std::string id = std::to_string(kUserId);
  TRY_DO(run_tool({.argv = {"chroot", tree, "groupadd", "--gid", id, "user"}}));
  return run_tool({.argv = {"chroot", tree, "useradd", "--uid", id, "--gid", id, "--create-home",
                            "--home-dir", "/home/user", "--shell", "/bin/bash", "user"}});
}

Result<> add_workspace(int tree_fd) {
  // The mode is set apart because the process's umask would cut it.
  if (::mkdirat(tree_fd, "workspace", 0755) != 0 ||
      ::fchmodat(tree_fd, "workspace", 0755, 0) != 0 ||
      ::fchownat(tree_fd, "workspace", kUserId, kUserId, AT_SYMLINK_NOFOLLOW) != 0) {
    return fail_errno("making /workspace in the new tree");
  }
  return {};
}

// The tree's own view of where packages come from replaces the file mmdebstrap was given.
Result<> write_sources(int tree_fd, const std::vector<AptSource>& sources) {
  for (const char* given : {"etc/apt/sources.list.d/0000debian.sources", "etc/apt/sources.list"}) {
    if (::unlinkat(tree_fd, given, 0) != 0 && errno != ENOENT) {
      return fail_errno(concat("removing ", given));
    }
  }
  return write_tree_file(tree_fd, {.path = "etc/apt/sources.list.d/debian.sources",
                                   .content = format_sources(without_credentials(sources))});
}

}  // namespace

Result<> finish_tree(const Recipe& recipe, int tree_fd) {
  for (const RecipeFile& file : recipe.files) {
    TRY_DO(write_tree_file(tree_fd, file));
  }
  for (const RecipeLink& link : recipe.links) {
    TRY_DO(make_tree_link(tree_fd, link));
  }
  for (const std::string& path : recipe.removed_files) {
    const auto parent = open_parent(tree_fd, path);
    if (!parent) {
      continue;  // no such directory: nothing to remove
    }
    if (::unlinkat(parent->first.get(), parent->second.c_str(), 0) != 0 && errno != ENOENT) {
      return fail_errno(concat("removing ", path));
    }
  }
  return {};
}

Result<> bootstrap(const Recipe& recipe, const std::string& work_directory,
                   const Progress& progress) {
  const std::vector<AptSource> sources = host_debian_sources(recipe.suite);
  TRY_DO(install_packages(recipe, work_directory, sources, progress));
  progress("finishing the tree", 0.86);
  const std::string tree = work_directory + "/tree";
  TRY_DO(add_user(tree));
  const Fd tree_fd{::open(tree.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!tree_fd) {
    return fail_errno("opening the new tree");
  }
  TRY_DO(add_workspace(tree_fd.get()));
  TRY_DO(write_sources(tree_fd.get(), sources));
  return finish_tree(recipe, tree_fd.get());
}

}  // namespace atl::image
