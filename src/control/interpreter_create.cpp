// Interpreters, the part that starts them.
#include "base/log.h"
#include "base/random.h"
#include "base/strings.h"
#include "control/interpreter.h"
#include "control/limits.h"
#include "control/preloaded.h"
#include "control/template_spec.h"

namespace atl::control {
namespace {

constexpr std::uint32_t kNoSuchProgram = 127;  // as shells say it

Error not_in_image(const Language& language) {
  return {Code::kFailedPrecondition,
          concat("the image has no ", language.program, ", which the interpreter \"",
                 language.alias, "\" needs; in Debian: apt-get install ", language.package),
          "command_not_found"};
}

// Whose interpreters are kept ready: those that a template's sandboxes have anyway.
bool is_usual_user(std::string_view user, const TemplateDefaults& defaults) {
  return user == defaults.user || user == kPlatformUser || user == "root";
}

// Reads until the driver says so. What it printed instead explains why it does not.
Task<> wait_for(ProcessStream& stream, const Language& language, std::string_view op) {
  CaptureBudget budget;
  Capture printed{budget, kMaxShownBytes};
  ChannelLines lines;
  for (;;) {
    CO_TRY(const auto event, co_await stream.next());
    if (const auto* exit = std::get_if<guest::ExitStatus>(&event)) {
      if (exit->exit_code == kNoSuchProgram) {
        co_return fail(not_in_image(language));
      }
      co_return fail(Code::kFailedPrecondition,
                     concat(language.program,
                            " ended instead of starting: ", to_valid_utf8(trim(printed.take()))),
                     "interpreter_failed");
    }
    const auto& output = std::get<guest::Output>(event);
    if (output.header.stream != guest::Stream::kChannel) {
      printed.append(output.bytes);
      continue;
    }
    lines.append(output.bytes);
    while (const auto line = lines.next()) {
      const auto message = parse_channel_message(*line);
      if (!message || message->op != op) {
        continue;
      }
      const Json* error = message->body.find("error");
      if (error != nullptr && error->as_string() != nullptr) {
        co_return fail(
            Code::kFailedPrecondition,
            to_valid_utf8(std::string_view{*error->as_string()}.substr(0, kMaxShownBytes)),
            "interpreter_failed");
      }
      co_return ok();
    }
  }
}

Task<> await_word(ProcessStream& stream, const Language& language, std::string_view op) {
  auto ready = co_await with_deadline(kInterpreterStartTimeout, wait_for(stream, language, op));
  if (!ready && is_deadline(ready.error())) {
    co_return fail(Code::kDeadlineExceeded,
                   concat(language.program, " did not become ready in time"), "interpreter_failed");
  }
  co_return std::move(ready);
}

}  // namespace

Task<> await_driver(ProcessStream& stream, const Language& language) {
  return await_word(stream, language, "ready");
}

// So that drivers in any language can take them apart.
std::string environment_words(const StringMap& env) {
  std::string words;
  for (const auto& [name, value] : env) {
    words += concat(words.empty() ? "" : ",", base64_encode(name), ":", base64_encode(value));
  }
  return words;
}

PreloadReport Interpreters::preload_report(const std::vector<std::string>& layers,
                                           const TemplateDefaults& defaults) const {
  return preloaded_ == nullptr ? PreloadReport{}
                               : preloaded_->report(preloaded_kind(layers, defaults));
}

Task<std::unique_ptr<Context>> Interpreters::create_preloaded(SandboxRef sandbox,
                                                              const Language& language,
                                                              const ContextRequest& request) {
  CO_TRY_DO(validate_env(request.env, "env_vars"));
  CO_TRY(auto running, co_await contexts_.sandboxes_.running(sandbox.team_id, sandbox.sandbox_id));
  StringMap env = request.env;
  env.insert(running.env.begin(), running.env.end());
  CO_TRY(const auto row, contexts_.sandboxes_.get(sandbox.team_id, sandbox.sandbox_id));
  const TemplateDefaults& defaults =
      contexts_.sandboxes_.templates().defaults(row.template_name, sandbox.team_id);
  PreloadedKind kind = preloaded_kind(row.layers, defaults);
  kind.user = request.user.empty() ? running.user : request.user;
  const auto found = is_usual_user(kind.user, defaults)
                         ? preloaded_->find(kind, env, sandbox.sandbox_id)
                         : nullptr;
  if (found == nullptr) {
    co_return nullptr;
  }
  const std::string cwd = request.cwd.empty() ? running.cwd : request.cwd;
  auto context = std::make_unique<Context>();
  context->process = found->process;
  context->process.process_id = request.id.empty() ? concat("ctx-", random_hex(8)) : request.id;
  context->process.started_unix_ms = contexts_.clock_.now();
  context->process.cwd = cwd;
  context->process.argv.back() = language.alias;  // as asked for: the image has one of its names
  const GuestClient client{contexts_.reactor_, std::move(running.guest_socket)};
  CO_TRY(const auto stream,
         co_await client.revive({.spawn = {.process_id = context->process.process_id,
                                           .argv = context->process.argv,
                                           .env = {},
                                           .cwd = cwd,
                                           .user = context->process.user,
                                           .timeout_ms = request.timeout_ms,
                                           .keep = true,
                                           .channel = true,
                                           .idle_timeout_ms = request.idle_timeout_ms},
                                 .description = found->image.description},
                                found->image.memory.get()));
  // It reads this when it has woken, so nobody waits for that first.
  auto ready = co_await stream->send_channel(
      concat("begin ", base64_encode(cwd), " ", environment_words(env), "\n"));
  if (ready) {
    ready = co_await await_word(*stream, language, "begun");
  }
  if (!ready) {
    (void)co_await shielded(contexts_.remove(sandbox, context->process.process_id));
    co_return fail(std::move(ready).error());
  }
  context->process.pid = stream->pid();
  contexts_.remember(sandbox, context->process.process_id, request);
  co_return std::move(context);
}

Task<Context> Interpreters::create(SandboxRef sandbox, InterpreterRequest request) {
  ContextRequest context{.cwd = std::move(request.cwd),
                         .user = std::move(request.user),
                         .env = std::move(request.env),
                         .pty = request.pty,
                         .timeout_ms = request.ttl_ms,
                         .idle_timeout_ms = request.idle_timeout_ms,
                         .id = std::move(request.id)};
  if (request.config) {
    CO_TRY(auto definition, define_repl(*std::move(request.config)));
    co_return co_await create_on_terminal(std::move(sandbox), std::move(definition),
                                          std::move(context));
  }
  const auto language = find_language(request.alias);
  if (!language) {
    CO_TRY_DO(validate_alias(request.alias));
    co_return co_await create_on_terminal(std::move(sandbox), *find_repl(request.alias),
                                          std::move(context));
  }
  context.command = interpreter_command(*language);
  context.channel = true;
  context.pty.reset();
  for (const auto& variable : interpreter_environment(*language)) {
    const auto equals = variable.find('=');
    context.env.insert_or_assign(variable.substr(0, equals), variable.substr(equals + 1));
  }
  if (request.pty) {
    context.env.emplace("LINES", std::to_string(request.pty->rows));
    context.env.emplace("COLUMNS", std::to_string(request.pty->columns));
  }
  if (request.preloaded && preloaded_ != nullptr && language->name == "python") {
    auto made = co_await create_preloaded(sandbox, *language, context);
    if (made && *made != nullptr) {
      co_return std::move(**made);
    }
    if (!made) {
      LOG_INFO("an interpreter starts anew", {"sandbox", sandbox.sandbox_id},
               {"because", made.error()});
    }
  }
  auto started = co_await contexts_.start(sandbox, context);
  if (!started && started.error().reason == "command_not_found") {
    co_return fail(not_in_image(*language));
  }
  if (!started) {
    co_return fail(std::move(started).error());
  }
  auto ready = co_await await_driver(*started->stream, *language);
  if (!ready) {
    (void)co_await shielded(
        contexts_.remove(std::move(sandbox), started->context.process.process_id));
    co_return fail(std::move(ready).error());
  }
  co_return std::move(started->context);
}

}  // namespace atl::control
