#include "control/prepared_warm_up.h"

#include "control/guest_client.h"
#include "control/limits.h"

namespace atl::control {
namespace {

constexpr std::uint64_t kLongestMs = 10'000;

Task<> run_nothing(const GuestClient& guest) {
  CO_TRY(auto stream, co_await guest.spawn({.process_id = "warm-up",
                                            .argv = {"/bin/true"},
                                            .env = {},
                                            .cwd = "/",
                                            .timeout_ms = kLongestMs}));
  for (;;) {
    CO_TRY(const auto event, co_await stream->next());
    if (std::holds_alternative<guest::ExitStatus>(event)) {
      co_return ok();
    }
  }
}

}  // namespace

Task<> warm_up_cell(io::Reactor& reactor, std::string guest_socket) {
  const GuestClient guest{reactor, std::move(guest_socket)};
  auto ran = co_await with_deadline(kNodeTimeout, run_nothing(guest));
  const bool has_no_such_command =
      !ran && (ran.error().code == Code::kNotFound || ran.error().code == Code::kInvalidArgument ||
               ran.error().code == Code::kFailedPrecondition);
  co_return has_no_such_command ? Result<>{} : std::move(ran);
}

}  // namespace atl::control
