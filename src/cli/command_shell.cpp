// `atoll shell`: a terminal in a sandbox, in one that is there or in one made for it.
#include "base/strings.h"
#include "cli/attached_process.h"
#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/sandbox.h"
#include "cli/shell_session.h"

namespace atl::cli {
namespace {

// bash where there is one. As a script, because only the sandbox knows what it has.
constexpr std::string_view kAnyShell = "command -v bash >/dev/null && exec bash || exec sh";

Json shell_body(const ShellOptions& options, const Terminal& terminal) {
  ProcessOptions process = options.process;
  if (process.argv.empty()) {
    process.argv = {"/bin/sh", "-c", std::string{kAnyShell}};
  }
  for (const char* name : {"TERM", "COLORTERM"}) {
    if (const auto value = lookup_process_env(name); !value.empty()) {
      process.env.insert(process.env.begin(), {name, value});
    }
  }
  const auto size = terminal.size();
  Json body = context_body(process, false);
  body.set("pty_size", Json::object({{"rows", size.rows}, {"cols", size.columns}}));
  return body;
}

class Shell {
 public:
  Shell(CommandContext& context, Interrupts& interrupts, Terminal& terminal,
        const ShellOptions& options, std::string sandbox_id)
      : context_(context),
        interrupts_(interrupts),
        terminal_(terminal),
        options_(options),
        api_(context.reactor, context.endpoint),
        sandbox_id_(std::move(sandbox_id)) {}

  Task<int> run() {
    auto status = co_await work().under(interrupts_.work());
    (void)co_await leave_nothing();
    co_return std::move(status);
  }

 private:
  bool temporary() const { return options_.id.empty() && !options_.keep; }

  Task<int> work() {
    context_id_ = options_.attach;
    if (context_id_.empty()) {
      CO_TRY(auto started,
             co_await api_.call("POST", concat(sandbox_path(sandbox_id_), "/contexts"),
                                shell_body(options_, terminal_)));
      context_id_ = text_member(started, "id");
    }
    ShellSession session{
        context_,
        terminal_,
        {.sandbox_id = sandbox_id_, .context_id = context_id_, .escapes = !options_.no_escape}};
    CO_TRY(const auto exit, co_await session.run());
    if (!exit) {
      detached_ = true;
      context_.console.complain(concat("detached; go on with: atoll shell ", printable(sandbox_id_),
                                       " --attach ", printable(context_id_), "\n"));
      co_return 0;
    }
    co_return exit->status();
  }

  // A shell that nobody can reach any more ends with us, as one in a closed window does.
  Task<> leave_nothing() {
    if (detached_) {
      co_return ok();
    }
    if (temporary()) {
      co_return co_await remove_sandbox(context_, interrupts_, sandbox_id_);
    }
    if (options_.id.empty()) {
      context_.console.complain(concat(printable(sandbox_id_), "\n"));
    }
    if (!context_id_.empty()) {
      (void)co_await with_deadline(kCleanupDeadline,
                                   api_.call("DELETE", context_path(sandbox_id_, context_id_)))
          .under(interrupts_.cleanup());
    }
    co_return ok();
  }

  CommandContext& context_;
  Interrupts& interrupts_;
  Terminal& terminal_;
  const ShellOptions& options_;
  Api api_;
  std::string sandbox_id_;
  std::string context_id_;
  bool detached_ = false;
};

}  // namespace

Task<int> command_shell(CommandContext& context, const ShellOptions& options) {
  if (context.options.json) {
    co_return fail(Code::kInvalidArgument,
                   "a shell is for people; for JSON use: atoll exec -o json SANDBOX -- CMD");
  }
  CO_TRY(auto terminal, Terminal::open(context.console,
                                       "in scripts use: atoll exec SANDBOX -- CMD, or: "
                                       "atoll run --rm -- CMD"));
  Api api{context.reactor, context.endpoint};
  CO_TRY(auto sandbox_id, co_await resolve_sandbox(api, options.id));
  if (sandbox_id.empty()) {
    CO_TRY(auto created, co_await create_for_session(context, options.sandbox));
    if (!created) {
      co_return kInterruptedStatus;
    }
    sandbox_id = created->id;
  }
  Interrupts interrupts{co_await current_context(), context, 0};
  Shell shell{context, interrupts, *terminal, options, std::move(sandbox_id)};
  auto status = co_await shell.run();
  (void)co_await interrupts.finish();
  if (!status && interrupts.gave_up()) {
    co_return interrupts.exit_status();
  }
  co_return std::move(status);
}

}  // namespace atl::cli
