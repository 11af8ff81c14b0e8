// `atoll import`: an image archive becomes a snapshot, whose id is printed.
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/strings.h"
#include "cli/api.h"
#include "cli/commands.h"
#include "cli/descriptor_gate.h"
#include "cli/fair_turn.h"
#include "cli/progress.h"

namespace atl::cli {
namespace {

Task<std::size_t> read_counted(SharedReader& reader, FairTurn& turn, std::span<char> buffer,
                               std::uint64_t& sent) {
  CO_TRY_DO(co_await turn.step());
  CO_TRY(const std::size_t got, co_await reader.read(buffer));
  sent += got;
  co_return got;
}

}  // namespace

Task<int> command_import(CommandContext& context, const ImportOptions& options) {
  const bool standard = options.file == "-";
  const Fd opened{standard ? -1 : ::open(options.file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)};
  const int descriptor = standard ? context.console.input() : opened.get();
  struct stat info{};
  if (descriptor < 0 || ::fstat(descriptor, &info) != 0) {
    co_return fail_errno(concat("opening ", options.file));
  }
  const auto total = S_ISREG(info.st_mode) ? static_cast<std::uint64_t>(info.st_size) : 0;
  CO_TRY(auto reader, SharedReader::open(context.reactor, descriptor));
  std::uint64_t sent = 0;
  FairTurn turn;
  const http::BodySource source = [&](std::span<char> buffer) {
    return read_counted(*reader, turn, buffer, sent);
  };
  std::string query;
  for (const auto& [key, value] :
       {std::pair{"template_id", options.template_name}, std::pair{"name", options.name},
        std::pair{"description", options.description}}) {
    if (!value.empty()) {
      query += concat(query.empty() ? "?" : "&", key, "=", http::percent_encode(value));
    }
  }
  Api api{context.reactor, context.endpoint};
  const Instant started = context.reactor.now();
  const auto describe = [&] {
    const std::chrono::duration<double> elapsed = context.reactor.now() - started;
    return concat("importing  ", describe_transfer(sent, total, elapsed.count()));
  };
  // Without a length: a file that grows meanwhile would break it.
  CO_TRY(const Json answer,
         co_await with_progress(context.console, context.options.quiet, describe,
                                api.upload(concat("/api/v1/sandbox-rootfs-snapshots/import", query),
                                           std::nullopt, source)));
  context.console.print(context.options.json ? answer.dump_pretty() + "\n"
                                             : printable(text_member(answer, "id")) + "\n");
  co_return 0;
}

}  // namespace atl::cli
