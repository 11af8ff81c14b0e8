// libatoll-criu.so: two corrections that criu is loaded with on the host.
//
// Where the node has no CAP_SYS_RESOURCE (in many virtual machines and containers) prlimit refuses
// to read the limits of a process of another user; /proc tells them to root. And kernels from 6.16
// on refuse two socket options for all but unix and netlink sockets, where criu 4.1 wants to read
// them of every socket: there they are off. Everything else goes its way.
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace {

using SystemCall = long (*)(long, ...);
using GetSocketOption = int (*)(int, int, int, void*, socklen_t*);

constexpr const char* kLimitNames[] = {
    "Max cpu time",       "Max file size",     "Max data size",         "Max stack size",
    "Max core file size", "Max resident set",  "Max processes",         "Max open files",
    "Max locked memory",  "Max address space", "Max file locks",        "Max pending signals",
    "Max msgqueue size",  "Max nice priority", "Max realtime priority", "Max realtime timeout"};
constexpr int kLimitCount = static_cast<int>(std::size(kLimitNames));
constexpr std::size_t kNameColumn = 25;  // the values begin behind it

rlim_t parse_limit(const char* text) {
  return std::strcmp(text, "unlimited") == 0 ? RLIM_INFINITY : std::strtoull(text, nullptr, 10);
}

bool read_limit(long pid, long resource, rlimit& limit) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%ld/limits", pid);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) {
    return false;
  }
  const char* name = kLimitNames[resource];
  char line[256];
  bool found = false;
  while (!found && std::fgets(line, sizeof line, file) != nullptr) {
    char soft[64];
    char hard[64];
    found = std::strncmp(line, name, std::strlen(name)) == 0 && std::strlen(line) > kNameColumn &&
            std::sscanf(line + kNameColumn, " %63s %63s", soft, hard) == 2;
    if (found) {
      limit = {parse_limit(soft), parse_limit(hard)};
    }
  }
  std::fclose(file);
  return found;
}

}  // namespace

extern "C" long syscall(long number, ...) noexcept {
  static const auto real = reinterpret_cast<SystemCall>(::dlsym(RTLD_NEXT, "syscall"));
  std::va_list list;
  va_start(list, number);
  long words[6];
  for (long& word : words) {
    word = va_arg(list, long);
  }
  va_end(list);
  const long result = real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
  const bool reads_limit = number == SYS_prlimit64 && words[2] == 0 && words[3] != 0;
  if (result == 0 || errno != EPERM || !reads_limit || words[1] < 0 || words[1] >= kLimitCount) {
    return result;
  }
  if (read_limit(words[0], words[1], *reinterpret_cast<rlimit*>(words[3]))) {
    return 0;
  }
  errno = EPERM;
  return -1;
}

extern "C" int getsockopt(int socket, int level, int option, void* value,
                          socklen_t* size) noexcept {
  static const auto real = reinterpret_cast<GetSocketOption>(::dlsym(RTLD_NEXT, "getsockopt"));
  const int result = real(socket, level, option, value, size);
  const bool off_here = level == SOL_SOCKET && (option == SO_PASSCRED || option == SO_PASSSEC);
  if (result != 0 && errno == EOPNOTSUPP && off_here && *size >= sizeof(int)) {
    *static_cast<int*>(value) = 0;
    return 0;
  }
  return result;
}
