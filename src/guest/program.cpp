#include "guest/program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "base/strings.h"

namespace atl::guest {
namespace {

std::string_view find_variable(const std::vector<std::string>& env, std::string_view name) {
  for (const auto& variable : env) {
    if (variable.size() > name.size() && variable[name.size()] == '=' &&
        variable.starts_with(name)) {
      return variable;
    }
  }
  return {};
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const auto& string : strings) {
    result.push_back(const_cast<char*>(string.c_str()));
  }
  result.push_back(nullptr);
  return result;
}

// Text, not a binary of some other machine: no NUL byte at its beginning.
bool looks_like_script(const std::string& path) {
  const Fd fd{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
  char head[256];
  const ssize_t got = fd ? ::read(fd.get(), head, sizeof head) : -1;
  return got >= 0 && std::memchr(head, 0, static_cast<std::size_t>(got)) == nullptr;
}

// execve, and for a script without #! the shell, as every shell does.
int try_execute(const std::string& path, const std::vector<std::string>& argv,
                const std::vector<char*>& env) {
  const auto arguments = pointers(argv);
  ::execve(path.c_str(), arguments.data(), env.data());
  const int error_number = errno;
  if (error_number != ENOEXEC || !looks_like_script(path)) {
    return error_number;
  }
  std::vector<std::string> script{"/bin/sh", path};
  script.insert(script.end(), argv.begin() + 1, argv.end());
  ::execve("/bin/sh", pointers(script).data(), env.data());
  return ENOEXEC;
}

Error explain(const std::string& name, int error_number) {
  struct stat status{};
  const bool exists = ::stat(name.c_str(), &status) == 0;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      if (exists) {
        return Error{Code::kFailedPrecondition,
                     concat("cannot run ", name,
                            ": the interpreter or loader it names is not in the sandbox"),
                     "interpreter_not_found"};
      }
      return Error{Code::kNotFound, concat("command not found: ", name), "command_not_found"};
    case EACCES:
    case EPERM:
      if (exists && S_ISDIR(status.st_mode)) {
        return Error{Code::kFailedPrecondition, concat("cannot run ", name, ": is a directory"),
                     "command_not_executable"};
      }
      return Error{Code::kPermissionDenied,
                   concat("cannot run ", name, ": permission denied (is it executable?)"),
                   "command_not_executable"};
    case ENOEXEC:
      return Error{Code::kFailedPrecondition,
                   concat("cannot run ", name, ": not a program this machine can execute"),
                   "command_not_executable"};
    case E2BIG:
      return Error{Code::kInvalidArgument,
                   concat("cannot run ", name, ": arguments and environment are too long"),
                   "argv_too_long"};
    default:
      return errno_error(concat("running ", name), error_number);
  }
}

}  // namespace

std::vector<std::string> complete_environment(std::vector<std::string> env,
                                              const Identity& identity, bool terminal) {
  const auto add = [&env](std::string_view name, std::string_view value) {
    if (find_variable(env, name).empty()) {
      env.push_back(concat(name, "=", value));
    }
  };
  add("HOME", identity.home);
  add("USER", identity.name);
  add("LOGNAME", identity.name);
  add("SHELL", identity.shell);
  add("PATH", kDefaultPath);
  if (terminal) {
    add("TERM", "xterm-256color");
  }
  return env;
}

Result<std::string> enter_directory(const std::string& asked, const Identity& identity) {
  const std::string cwd = expand_home(asked, identity);
  if (cwd.empty()) {
    if (::chdir(identity.home.c_str()) == 0) {
      return identity.home;
    }
    if (::chdir("/") != 0) {
      return fail_errno("changing to /");
    }
    return std::string{"/"};
  }
  if (::chdir(cwd.c_str()) == 0) {
    return cwd;
  }
  const int error_number = errno;
  switch (error_number) {
    case ENOENT:
      return fail(Code::kNotFound, concat("working directory ", cwd, " does not exist"),
                  "cwd_not_found");
    case ENOTDIR:
      return fail(Code::kFailedPrecondition,
                  concat("working directory ", cwd, " is not a directory"), "path_not_directory");
    case EACCES:
      return fail(Code::kPermissionDenied,
                  concat("user ", identity.name, " may not enter working directory ", cwd),
                  "permission_denied");
    default:
      return fail(errno_error(concat("changing to ", cwd), error_number));
  }
}

Error execute(const std::vector<std::string>& argv, const std::vector<std::string>& env) {
  const std::string& name = argv[0];
  const auto variables = pointers(env);
  if (name.find('/') != std::string::npos) {
    return explain(name, try_execute(name, argv, variables));
  }
  auto path = find_variable(env, "PATH");
  path = path.size() >= 5 ? path.substr(5) : kDefaultPath;
  std::string denied;
  for (const auto directory : split(path, ':')) {
    const std::string candidate = concat(directory.empty() ? "." : directory, "/", name);
    const int error_number = try_execute(candidate, argv, variables);
    if (error_number == EACCES) {
      denied = candidate;
    } else if (error_number != ENOENT && error_number != ENOTDIR) {
      return explain(candidate, error_number);
    } else if (::access(candidate.c_str(), F_OK) == 0) {
      return explain(candidate, error_number);
    }
  }
  if (!denied.empty() && ::access(denied.c_str(), F_OK) == 0) {
    return explain(denied, EACCES);
  }
  return Error{Code::kNotFound,
               concat("command not found: ", name, " (PATH is ", path.substr(0, 1024), ")"),
               "command_not_found"};
}

}  // namespace atl::guest
