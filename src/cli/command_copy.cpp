// `atoll cp`: one side is in a sandbox, the other is here.
#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/commands.h"
#include "cli/copy.h"
#include "cli/parse.h"
#include "cli/progress.h"
#include "cli/sandbox.h"

namespace atl::cli {
namespace {

using Kind = CopyPlace::Kind;

Result<> check_places(const CopyPlace& source, const CopyPlace& destination, bool json) {
  const bool from = source.kind == Kind::kSandbox;
  const bool into = destination.kind == Kind::kSandbox;
  if (from && into) {
    return fail(Code::kInvalidArgument,
                "cannot copy from sandbox to sandbox; use a pipe: "
                "atoll cp A:/file - | atoll cp - B:/file",
                kReasonUsage);
  }
  if (!from && !into) {
    return fail(Code::kInvalidArgument,
                "one side must be in a sandbox, written as ID:/path; for example: "
                "atoll cp data.csv ID:/home/user/",
                kReasonUsage);
  }
  if (json && destination.kind == Kind::kStandard) {
    return fail(Code::kInvalidArgument,
                "-o json and a copy to standard output would both write there", kReasonUsage);
  }
  return {};
}

std::string local_text(const CopyPlace& place) {
  return place.kind == Kind::kStandard ? "-" : place.path;
}

Task<std::string> copy(CommandContext& context, const CopyPlace& source,
                       const CopyPlace& destination, const std::string& user, CopyTally& tally) {
  const auto& inside = source.kind == Kind::kSandbox ? source : destination;
  Api api{context.reactor, context.endpoint};
  RemoteFiles remote{api, inside.sandbox_id, user};
  if (source.kind == Kind::kSandbox) {
    Download download{context, remote, tally};
    co_return co_await download.run(source.path, local_text(destination));
  }
  Upload upload{context, remote, tally};
  CO_TRY(auto path, co_await upload.run(local_text(source), destination.path));
  co_return concat(inside.sandbox_id, ":", path);
}

}  // namespace

Task<int> command_copy(CommandContext& context, const CopyOptions& options) {
  auto source = parse_place(options.source);
  auto destination = parse_place(options.destination);
  CO_TRY_DO(check_places(source, destination, context.options.json));
  Api api{context.reactor, context.endpoint};
  CO_TRY(source.sandbox_id, co_await resolve_sandbox(api, source.sandbox_id));
  CO_TRY(destination.sandbox_id, co_await resolve_sandbox(api, destination.sandbox_id));
  CopyTally tally;
  const Instant started = context.reactor.now();
  const auto describe = [&] {
    const std::chrono::duration<double> elapsed = context.reactor.now() - started;
    auto text = describe_transfer(tally.bytes, tally.total_bytes, elapsed.count());
    if (tally.directories > 0) {
      text += concat("  ", tally.files, tally.files == 1 ? " file" : " files");
    }
    return text;
  };
  CO_TRY(const auto target,
         co_await with_progress(context.console, context.options.quiet, describe,
                                copy(context, source, destination, options.user, tally)));
  if (context.options.json) {
    context.console.print(Json::object({{"source", options.source},
                                        {"destination", target},
                                        {"bytes", tally.bytes},
                                        {"files", tally.files},
                                        {"directories", tally.directories},
                                        {"links", tally.links},
                                        {"skipped", tally.skipped}})
                              .dump_pretty() +
                          "\n");
  }
  co_return 0;
}

}  // namespace atl::cli
