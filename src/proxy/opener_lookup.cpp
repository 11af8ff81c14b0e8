#include "proxy/opener_lookup.h"

#include "proxy/limits.h"
#include "proxy/turn.h"

namespace atl::proxy {
namespace {

Task<> ask(egress::Openers& openers, std::string sandbox_id, egress::Transport transport,
           std::uint16_t port, std::shared_ptr<FlowAccount> account, std::shared_ptr<Event> known) {
  // In the next turn of the loop: asking takes system calls, and the flow goes first.
  CO_TRY_DO(co_await Turn{});
  auto opener = co_await openers.find(std::move(sandbox_id), transport, port);
  if (opener) {
    account->record.opener = *std::move(opener);
  }
  known->set();
  co_return ok();
}

Task<> wait(std::shared_ptr<Event> event) {
  co_return co_await event->wait();
}

}  // namespace

OpenerLookup::OpenerLookup(SandboxSession& session, std::shared_ptr<FlowAccount> account,
                           egress::Transport transport, std::uint16_t port)
    : known_(std::make_shared<Event>()) {
  session.spawn("opener", ask(session.machinery().options.openers, session.rules()->sandbox_id,
                              transport, port, std::move(account), known_));
}

Task<> OpenerLookup::settle() {
  if (!known_->is_set()) {
    (void)co_await with_deadline(kOpenerTime, wait(known_));
  }
  co_return ok();
}

}  // namespace atl::proxy
