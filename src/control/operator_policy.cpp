#include "control/operator_policy.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/log.h"
#include "base/strings.h"
#include "control/network_document.h"

namespace atl::control {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20;

Result<std::string> read_file(const std::string& path) {
  const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!file) {
    return fail_errno(concat("opening the operator's policy ", path));
  }
  std::string text;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0) {
      return fail_errno(concat("reading the operator's policy ", path));
    }
    if (got == 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > kMaxFileBytes) {
      return fail(Code::kInvalidArgument, concat("the operator's policy ", path, " is too long"));
    }
  }
}

// Nothing may be left to read, or the next wait would not wait.
void drain(int events) {
  alignas(inotify_event) std::array<char, 4096> buffer;
  while (::read(events, buffer.data(), buffer.size()) > 0) {
  }
}

Task<> wait_readable(io::FdWatch& watch) {
  co_return co_await watch.readable();
}

}  // namespace

Result<OperatorPolicy> OperatorPolicy::open(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "."
                                : slash == 0               ? "/"
                                                           : path.substr(0, slash);
  Fd events{::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
  if (!events) {
    return fail_errno("watching the operator's policy");
  }
  if (::inotify_add_watch(events.get(), directory.c_str(),
                          IN_CLOSE_WRITE | IN_MOVED_TO | IN_ATTRIB) < 0) {
    return fail_errno(concat("watching ", directory, " for the operator's policy"));
  }
  return OperatorPolicy{path, std::move(events)};
}

Result<egress::Policy> OperatorPolicy::read() const {
  TRY(const std::string text, read_file(path_));
  auto json = Json::parse(text);
  auto request = json ? read_network(*json, "policy", NetworkPlace::kOperator)
                      : Result<NetworkRequest>{fail(std::move(json).error())};
  if (!request) {
    return fail(std::move(request).error().note(concat("the operator's policy ", path_)));
  }
  return std::move(request->document.policy);
}

Task<> OperatorPolicy::run(io::Reactor& reactor, std::function<void(egress::Policy)> changed) {
  io::FdWatch watch{reactor, events_.get()};
  auto last = read();
  for (;;) {
    CO_TRY_DO(co_await wait_readable(watch));
    drain(events_.get());
    auto next = read();
    if (!next) {
      LOG_ERROR("the operator's policy is unusable, the earlier one stays",
                {"error", next.error()});
    } else if (!last || *next != *last) {
      LOG_INFO("the operator's policy has changed", {"file", path_});
      changed(*next);
      last = std::move(next);
    }
  }
}

}  // namespace atl::control
