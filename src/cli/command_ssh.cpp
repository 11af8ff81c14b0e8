// `atoll ssh`: becomes OpenSSH's client, told where the sandbox is.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "base/fd.h"
#include "base/strings.h"
#include "cli/api.h"
#include "cli/commands.h"
#include "cli/sandbox.h"

namespace atl::cli {
namespace {

constexpr std::size_t kMaxKeyFileBytes = std::size_t{64} * 1024;

Task<> add_key(CommandContext& context, Api& api, std::string path) {
  CO_TRY(const std::string text, read_file(path, kMaxKeyFileBytes));
  const std::string_view line = trim(text);
  const auto comment = line.rfind(' ');
  const std::string name{comment == line.npos ? std::string_view{path} : line.substr(comment + 1)};
  CO_TRY(const auto key,
         co_await api.call("POST", "/users/me/ssh-keys",
                           Json::object({{"name", name}, {"public_key", std::string{line}}})));
  context.console.print(printable(text_member(key, "fingerprint_sha256")) + "\n");
  co_return ok();
}

// Returns only on failure.
Error become_ssh(const std::string& host, std::int64_t port, const std::string& user,
                 const std::vector<std::string>& words) {
  // Options of ssh come before the host, what is to be run after it.
  std::vector<std::string> arguments{"ssh", "-p", std::to_string(port)};
  const bool options = !words.empty() && words.front().starts_with('-');
  if (options) {
    arguments.insert(arguments.end(), words.begin(), words.end());
  }
  arguments.push_back(concat(user, "@", host));
  if (!options) {
    arguments.insert(arguments.end(), words.begin(), words.end());
  }
  std::vector<char*> pointers;
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
  pointers.push_back(nullptr);
  // Ours were taken by the loop.
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvp("ssh", pointers.data());
  return errno_error("starting ssh; is OpenSSH's client installed?");
}

}  // namespace

Task<int> command_ssh(CommandContext& context, const SshOptions& options) {
  Api api{context.reactor, context.endpoint};
  if (!options.add_key.empty()) {
    CO_TRY_DO(co_await add_key(context, api, options.add_key));
  }
  if (options.id.empty()) {
    co_return 0;
  }
  CO_TRY(const auto id, co_await resolve_sandbox(api, options.id));
  CO_TRY(const auto sandbox, co_await api.call("GET", sandbox_path(id)));
  const Json* ssh = sandbox.find("ssh");
  const Json* port = ssh == nullptr ? nullptr : ssh->find("port");
  const std::string host = ssh == nullptr ? "" : text_member(*ssh, "host");
  const std::string user = ssh == nullptr ? "" : text_member(*ssh, "username");
  if (port == nullptr || port->as_integer() == nullptr || host.empty() || host.starts_with('-') ||
      user.empty() || user.starts_with('-')) {
    co_return fail(Code::kFailedPrecondition,
                   "this server has no SSH; start it with --ssh-listen, or use: atoll shell");
  }
  co_return fail(become_ssh(host, *port->as_integer(), user, options.words));
}

}  // namespace atl::cli
