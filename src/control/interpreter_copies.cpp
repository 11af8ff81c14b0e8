// Interpreters that are taken along by a fork: copied in one sandbox, revived in others.
//
// The driver makes the copy itself, with fork(2), when it is idle; the guest takes the image of the
// copy and ends it; the guests of the new sandboxes make processes of the image, each of which
// renews its entropy and says that it is ready, as a new interpreter does.
#include "base/random.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/interpreter.h"
#include "control/limits.h"

namespace atl::control {
namespace {

struct CopyMessage {
  std::uint32_t pid = 0;
  std::uint32_t channel = 0;
  std::uint32_t threads = 0;
  std::string error;
};

std::uint32_t number_of(const Json& body, std::string_view name) {
  const Json* field = body.find(name);
  const auto* value = field == nullptr ? nullptr : field->as_integer();
  return value == nullptr || *value < 0 || *value > INT32_MAX ? 0
                                                              : static_cast<std::uint32_t>(*value);
}

Task<CopyMessage> wait_for_copy(ProcessStream& stream, std::string id) {
  ChannelLines lines;
  for (;;) {
    CO_TRY(const auto event, co_await stream.next());
    if (std::holds_alternative<guest::ExitStatus>(event)) {
      co_return fail(Code::kFailedPrecondition, "it ended", "process_ended");
    }
    const auto& output = std::get<guest::Output>(event);
    if (output.header.stream != guest::Stream::kChannel) {
      continue;
    }
    lines.append(output.bytes);
    while (const auto line = lines.next()) {
      const auto message = parse_channel_message(*line);
      if (!message || message->op != "copied" || message->id != id) {
        continue;
      }
      CopyMessage copy{.pid = number_of(message->body, "pid"),
                       .channel = number_of(message->body, "channel"),
                       .threads = number_of(message->body, "threads")};
      if (const Json* error = message->body.find("error"); error != nullptr) {
        const auto* text = error->as_string();
        copy.error = text == nullptr ? "" : to_valid_utf8(text->substr(0, kMaxShownBytes));
      }
      co_return std::move(copy);
    }
  }
}

}  // namespace

Task<CopiedInterpreter> copy_interpreter(GuestClient client, guest::ProcessInfo process,
                                         std::uint64_t max_bytes, CopyMemory memory) {
  const std::string name = random_hex(16);
  const std::string id = process.process_id;
  CO_TRY(auto attached, co_await shielded(client.attach_to_end(id, concat("copy ", name, " -\n"))));
  auto message = co_await with_deadline(kCopyTimeout, wait_for_copy(*attached.stream, name));
  attached.stream.reset();
  if (!message && is_deadline(message.error())) {
    co_return fail(Code::kUnavailable, "it did not answer in time", "context_busy");
  }
  if (!message) {
    co_return fail(std::move(message).error());
  }
  if (message->pid < 2) {
    co_return fail(Code::kFailedPrecondition,
                   message->error.empty() ? "it could not copy itself" : message->error,
                   "copy_failed");
  }
  CopiedInterpreter copied{.process = std::move(process), .threads = message->threads};
  CO_TRY(copied.image, co_await client.capture({.process_id = id,
                                                .pid = message->pid,
                                                .channel = message->channel,
                                                .max_bytes = max_bytes,
                                                .own_memory = memory == CopyMemory::kOwn}));
  co_return std::move(copied);
}

Task<CopiedInterpreter> Interpreters::copy(SandboxRef sandbox, std::string id,
                                           std::uint64_t max_bytes) {
  CO_TRY(const GuestClient client, co_await contexts_.guest(sandbox));
  CO_TRY(auto process, co_await contexts_.describe(sandbox, id));
  CO_TRY_DO(check_driver(process));
  if (language_of(process)->name != "python") {
    co_return fail(Code::kFailedPrecondition, "only Python can be copied", "language");
  }
  CO_TRY(auto copied,
         co_await copy_interpreter(client, std::move(process), max_bytes, CopyMemory::kShared));
  copied.remembered = contexts_.remembered(sandbox, id);
  co_return std::move(copied);
}

Task<> Interpreters::bring(SandboxRef sandbox, std::shared_ptr<const CopiedInterpreter> copy) {
  const guest::ProcessInfo& process = copy->process;
  const auto language = language_of(process);
  CHECK(language);
  guest::ReviveRequest request{
      .spawn = {.process_id = process.process_id,
                .argv = process.argv,
                .env = {},
                .cwd = process.cwd,
                .user = process.user,
                .timeout_ms = copy->remembered ? copy->remembered->timeout_ms : 0,
                .keep = true,
                .channel = true,
                .idle_timeout_ms = copy->remembered ? copy->remembered->idle_timeout_ms : 0,
                .label = process.label},
      .description = copy->image.description};
  CO_TRY(const GuestClient client, co_await contexts_.guest(sandbox));
  Contexts::Started started;
  started.context.process = process;
  CO_TRY(started.stream, co_await client.revive(std::move(request), copy->image.memory.get()));
  auto ready = co_await await_driver(*started.stream, *language);
  started.stream.reset();
  if (!ready) {
    (void)co_await shielded(contexts_.remove(std::move(sandbox), process.process_id));
    co_return fail(std::move(ready).error());
  }
  if (copy->remembered) {
    contexts_.remember(sandbox, process.process_id, *copy->remembered);
  }
  co_return ok();
}

}  // namespace atl::control
