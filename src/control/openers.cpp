#include "control/openers.h"

#include "base/scope.h"
#include "base/strings.h"
#include "control/guest_client.h"
#include "control/limits.h"

namespace atl::control {
namespace {

constexpr std::size_t kMaxQuestionsOfSandbox = 4;
constexpr std::size_t kMaxQuestions = 64;
// A search costs the sandbox a process of its agent's; of a flood of connections some are enough.
constexpr std::size_t kMaxQuestionsPerSecond = 50;
constexpr std::size_t kMaxSandboxesCounted = 4096;

}  // namespace

GuestOpeners::Asking* GuestOpeners::may_ask(const std::string& sandbox_id) {
  if (asking_.size() >= kMaxSandboxesCounted) {
    std::erase_if(asking_, [](const auto& each) { return each.second.under_way == 0; });
  }
  Asking& asking = asking_[sandbox_id];
  const Instant now = reactor_.now();
  if (now - asking.second >= std::chrono::seconds{1}) {
    asking.second = now;
    asking.in_second = 0;
  }
  if (asking_all_ >= kMaxQuestions || asking.under_way >= kMaxQuestionsOfSandbox ||
      asking.in_second >= kMaxQuestionsPerSecond) {
    return nullptr;
  }
  ++asking_all_;
  ++asking.under_way;
  ++asking.in_second;
  return &asking;
}

Task<egress::Opener> GuestOpeners::find(std::string sandbox_id, egress::Transport transport,
                                        std::uint16_t port) {
  const std::string socket = sandboxes_.guest_socket_now(sandbox_id);
  Asking* asking = socket.empty() ? nullptr : may_ask(sandbox_id);
  if (asking == nullptr) {
    co_return egress::Opener{};
  }
  const GuestClient guest{reactor_, socket};
  auto holder = co_await with_deadline(
      kOpenerTimeout,
      guest.find_socket({.datagrams = transport == egress::Transport::kUdp, .port = port}));
  --asking_all_;
  --asking->under_way;
  if (!holder) {
    co_return egress::Opener{};  // the audit says that nobody knows
  }
  co_return egress::Opener{.pid = holder->pid,
                           .program = to_valid_utf8(holder->program),
                           .context_id = std::move(holder->process_id)};
}

}  // namespace atl::control
