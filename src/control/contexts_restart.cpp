// Restarting a context: the same id, a new process.
#include <algorithm>

#include "control/contexts.h"
#include "control/limits.h"
#include "control/repl_definition.h"

namespace atl::control {
namespace {

constexpr std::size_t kMinTidyBytes = 64UL << 10;

std::size_t bytes_of(const std::string& key, const ContextRequest& request) {
  constexpr std::size_t kOverhead = 512;
  std::size_t bytes = kOverhead + key.size();
  for (const auto& [name, value] : request.env) {
    bytes += name.size() + value.size() + 64;
  }
  return bytes;
}

}  // namespace

// Only what the guest's table does not tell.
void Contexts::remember(const SandboxRef& sandbox, const std::string& id,
                        const ContextRequest& request) {
  forget(sandbox, id);
  const std::string key = context_key(sandbox, id);
  ContextRequest kept{.env = request.env,
                      .pty = request.pty,
                      .keep_input_open = request.keep_input_open,
                      .timeout_ms = request.timeout_ms,
                      .idle_timeout_ms = request.idle_timeout_ms};
  const std::size_t bytes = bytes_of(key, kept);
  if (remembered_bytes_ + bytes > tidy_at_bytes_) {
    forget_lost_sandboxes();
  }
  if (remembered_bytes_ + bytes <= kMaxRememberedBytes) {
    remembered_bytes_ += bytes;
    remembered_.emplace(key, Remembered{sandbox, std::move(kept), bytes});
  }
}

// Sandboxes go in many ways. Looked for whenever what is kept has doubled, so that each costs
// little.
void Contexts::forget_lost_sandboxes() {
  std::erase_if(remembered_, [this](const auto& each) {
    const bool lost = !check_sandbox(each.second.sandbox);
    remembered_bytes_ -= lost ? each.second.bytes : 0;
    return lost;
  });
  tidy_at_bytes_ = std::clamp(2 * remembered_bytes_, kMinTidyBytes, kMaxRememberedBytes);
}

void Contexts::forget(const SandboxRef& sandbox, const std::string& id) {
  const auto found = remembered_.find(context_key(sandbox, id));
  if (found != remembered_.end()) {
    remembered_bytes_ -= found->second.bytes;
    remembered_.erase(found);
  }
}

std::optional<ContextRequest> Contexts::remembered(const SandboxRef& sandbox,
                                                   const std::string& id) const {
  const auto found = remembered_.find(context_key(sandbox, id));
  return found == remembered_.end() ? std::nullopt : std::optional{found->second.request};
}

Task<Contexts::Started> Contexts::start_again(SandboxRef sandbox, std::string id) {
  CO_TRY(const auto client, co_await guest(sandbox));
  CO_TRY(auto process, co_await find_process(client, id));
  ContextRequest request;
  if (auto known = remembered(sandbox, id)) {
    request = *std::move(known);
  } else if (process.pty) {
    request.pty = guest::PtySize{};
  }
  if (const auto definition = repl_of(process)) {
    for (const auto& [name, value] : definition->env) {
      request.env.insert_or_assign(name, value);
    }
    request.pty_driven = true;
  }
  request.label = std::move(process.label);
  request.command = std::move(process.argv);
  request.cwd = std::move(process.cwd);
  request.user = std::move(process.user);
  request.channel = process.has_channel;
  request.id = id;
  CO_TRY_DO(co_await client.remove_process(std::move(id)));
  co_return co_await start(std::move(sandbox), request);
}

Task<guest::ProcessInfo> Contexts::describe(SandboxRef sandbox, std::string id) {
  CO_TRY(const auto client, co_await guest(std::move(sandbox)));
  co_return co_await find_process(client, std::move(id));
}

Task<Context> Contexts::restart(SandboxRef sandbox, std::string id) {
  CO_TRY(auto started, co_await start_again(std::move(sandbox), std::move(id)));
  co_return std::move(started.context);
}

}  // namespace atl::control
