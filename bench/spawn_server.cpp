// The physical floor behind HTTP: a server that starts the program for each request, unsandboxed,
// and answers when it has ended. What a client sees of this one it cannot see less of any sandbox.
//
//   atoll-spawn-server COMMAND...      prints its URL; ends with its standard input
//
// GET /capture reads standard output and standard error to their ends over pipes, as an exec has
// to; any other path leaves them at /dev/null. One thread, epoll, connections are kept alive.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "base/fd.h"
#include "base/strings.h"

extern char** environ;

namespace atl::bench {
namespace {

struct Client;
// What an event means: a connection, a stream or the end of its program.
struct Source {
  enum class Kind : std::uint8_t { kInput, kListener, kClient, kOutput, kError, kExit } kind;
  Client* client = nullptr;
};

struct Client {
  Fd socket;
  Fd streams[2];
  Fd exit;
  pid_t pid = 0;
  int open = 0;  // streams and the process itself that have not ended
  std::string input;
  std::string output;
  Source self{Source::Kind::kClient, this};
  Source output_source{Source::Kind::kOutput, this};
  Source error_source{Source::Kind::kError, this};
  Source exit_source{Source::Kind::kExit, this};
};

class SpawnServer {
 public:
  explicit SpawnServer(std::vector<char*> command) : command_(std::move(command)) {}

  Result<> run() {
    epoll_ = Fd{::epoll_create1(EPOLL_CLOEXEC)};
    listener_ = Fd{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_.get(), 1024) != 0 ||
        ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      return fail_errno("listening");
    }
    watch(listener_.get(), listening_);
    watch(STDIN_FILENO, input_);
    std::printf("http://127.0.0.1:%d\n", ntohs(address.sin_port));
    std::fflush(stdout);
    while (!ended_) {
      epoll_event events[64];
      const int count = ::epoll_wait(epoll_.get(), events, 64, -1);
      for (int i = 0; i < count; ++i) {
        handle(*static_cast<Source*>(events[i].data.ptr));
      }
      gone_.clear();  // not before: an event of the same batch may name it
    }
    return {};
  }

 private:
  void watch(int fd, Source& source) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &source;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  // Not by closing alone: a child that has been started but not yet closed what it inherited keeps
  // the file open, and epoll would go on to tell of it.
  void drop(Fd& fd) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd.get(), nullptr);
    fd.reset();
  }

  void handle(Source& source) {
    switch (source.kind) {
      case Source::Kind::kInput:
        ended_ = true;
        break;
      case Source::Kind::kListener:
        accept_all();
        break;
      case Source::Kind::kClient:
        read_request(*source.client);
        break;
      case Source::Kind::kOutput:
        drain(*source.client, 0);
        break;
      case Source::Kind::kError:
        drain(*source.client, 1);
        break;
      case Source::Kind::kExit:
        drop(source.client->exit);
        finish_one(*source.client);
        break;
    }
  }

  void accept_all() {
    for (int fd = 0;
         (fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      auto client = std::make_unique<Client>();
      client->socket = Fd{fd};
      watch(fd, client->self);
      clients_.emplace(client.get(), std::move(client));
    }
  }

  void read_request(Client& client) {
    char buffer[16384];
    const ssize_t size = ::read(client.socket.get(), buffer, sizeof buffer);
    if (size <= 0) {
      if (size < 0 && errno == EAGAIN) {
        return;
      }
      drop(client.socket);
      if (client.open == 0) {
        forget(client);
      }
      return;
    }
    client.input.append(buffer, static_cast<std::size_t>(size));
    const auto end = client.input.find("\r\n\r\n");
    if (end == std::string::npos) {
      return;
    }
    const bool capture = client.input.starts_with("GET /capture ");
    client.input.clear();  // one request at a time, without a body
    if (!start(client, capture)) {
      answer(client, 500, "the program did not start");
    }
  }

  bool start(Client& client, bool capture) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    Fd writers[2];
    for (int i = 0; i < 2; ++i) {
      int ends[2];
      if (!capture) {
        ::posix_spawn_file_actions_addopen(&actions, i + 1, "/dev/null", O_WRONLY, 0);
      } else if (::pipe2(ends, O_CLOEXEC) == 0) {
        client.streams[i] = Fd{ends[0]};
        writers[i] = Fd{ends[1]};
        ::posix_spawn_file_actions_adddup2(&actions, ends[1], i + 1);
      }
    }
    const int error =
        ::posix_spawn(&client.pid, command_[0], &actions, nullptr, command_.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
      return false;
    }
    client.exit = Fd{static_cast<int>(::syscall(SYS_pidfd_open, client.pid, 0))};
    client.open = capture ? 3 : 1;
    client.output.clear();
    watch(client.exit.get(), client.exit_source);
    if (capture) {
      watch(client.streams[0].get(), client.output_source);
      watch(client.streams[1].get(), client.error_source);
    }
    return true;
  }

  void drain(Client& client, int which) {
    char buffer[65536];
    const ssize_t size = ::read(client.streams[which].get(), buffer, sizeof buffer);
    if (size > 0) {
      client.output.append(buffer, static_cast<std::size_t>(size));
      return;
    }
    drop(client.streams[which]);
    finish_one(client);
  }

  void finish_one(Client& client) {
    if (--client.open > 0) {
      return;
    }
    int status = -1;
    ::waitpid(client.pid, &status, 0);
    if (!client.socket) {
      forget(client);
      return;
    }
    answer(client, 200,
           concat(R"({"exit_code":)", WIFEXITED(status) ? WEXITSTATUS(status) : -1, R"(,"size":)",
                  client.output.size(), "}"));
  }

  static void answer(Client& client, int status, const std::string& body) {
    const std::string text = concat(
        "HTTP/1.1 ", status, " \r\nContent-Type: application/json\r\nContent-Length: ", body.size(),
        "\r\n\r\n", body);
    (void)write_all(client.socket.get(), text);  // small: it fits the socket's buffer
  }

  void forget(Client& client) {
    const auto found = clients_.find(&client);
    gone_.push_back(std::move(found->second));
    clients_.erase(found);
  }

  std::vector<char*> command_;
  Fd epoll_;
  Fd listener_;
  bool ended_ = false;
  Source listening_{Source::Kind::kListener};
  Source input_{Source::Kind::kInput};
  std::unordered_map<Client*, std::unique_ptr<Client>> clients_;
  std::vector<std::unique_ptr<Client>> gone_;
};

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: atoll-spawn-server COMMAND...\n", stderr);
    return 2;
  }
  std::vector<char*> command{argv + 1, argv + argc};
  command.push_back(nullptr);
  if (const auto result = atl::bench::SpawnServer{std::move(command)}.run(); !result) {
    std::fprintf(stderr, "atoll-spawn-server: %s\n", result.error().message.c_str());
    return 1;
  }
  return 0;
}
