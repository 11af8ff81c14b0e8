#include "runtime/test_guest.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace atl::runtime::testing {
namespace {

constexpr int kListenFd = 3;

std::string receive_line(int fd) {
  std::string line;
  char byte = 0;
  while (::read(fd, &byte, 1) == 1 && byte != '\n') {
    line += byte;
  }
  return line;
}

void answer(int connection) {
  const std::string line = receive_line(connection);
  const auto space = line.find(' ');
  const auto found = probes().find(line.substr(0, space));
  const std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
  const std::string reply = found == probes().end() ? "no such probe" : found->second(argument);
  [[maybe_unused]] const auto wrote = ::write(connection, reply.data(), reply.size());
}

[[noreturn]] void serve() {
  for (;;) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    const int connection = ::accept(kListenFd, nullptr, nullptr);
    if (connection < 0) {
      continue;
    }
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(kListenFd);
      answer(connection);
      ::_exit(0);
    }
    ::close(connection);
  }
}

// Static initialisers of other files register probes, so the loop starts when all are done: as
// gtest's first global environment.
class GuestEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    int listening = 0;
    socklen_t size = sizeof listening;
    if (::getpid() == 1 &&
        ::getsockopt(kListenFd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 &&
        listening == 1) {
      serve();
    }
  }
};
[[maybe_unused]] const auto* const environment =
    ::testing::AddGlobalTestEnvironment(new GuestEnvironment);

}  // namespace

std::map<std::string, Probe, std::less<>>& probes() {
  static std::map<std::string, Probe, std::less<>> all;
  return all;
}

ProbeEntry::ProbeEntry(std::string name, Probe probe) {
  probes().emplace(std::move(name), std::move(probe));
}

}  // namespace atl::runtime::testing
