// `atoll volume cp`. A file goes as it is; a directory goes up as one tar, so that links and modes
// arrive too, and comes down file by file, each checked before it is made here.
#include <sys/stat.h>

#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/copy.h"
#include "cli/parse.h"
#include "cli/progress.h"
#include "cli/tree_archive.h"
#include "cli/volume.h"

namespace atl::cli {
namespace {

using Kind = CopyPlace::Kind;

Result<> check_places(const CopyPlace& source, const CopyPlace& destination, bool json) {
  if ((source.kind == Kind::kSandbox) == (destination.kind == Kind::kSandbox)) {
    return fail(Code::kInvalidArgument,
                "one side must be in a volume, written as VOLUME:/path; for example: "
                "atoll volume cp data.csv VOLUME:/",
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

bool is_local_directory(const CopyPlace& place) {
  struct stat info{};
  return place.kind == Kind::kLocal && ::stat(place.path.c_str(), &info) == 0 &&
         S_ISDIR(info.st_mode);
}

// An existing directory as destination receives the source inside it, as with `atoll cp`.
Task<std::string> directory_target(RemoteFiles& remote, std::string local,
                                   std::string destination) {
  const auto name = last_component(local);
  if (name.empty() || name == ".." || local.ends_with("/.")) {
    co_return destination;
  }
  CO_TRY(const auto found, co_await remote.stat(destination));
  co_return found && found->type == RemoteFile::Type::kDirectory ? join_path(destination, name)
                                                                 : destination;
}

Task<std::string> send_directory(CommandContext& context, RemoteFiles& remote, std::string local,
                                 std::string destination, CopyTally& tally) {
  CO_TRY(const auto target, co_await directory_target(remote, local, destination));
  CO_TRY(auto archive, TreeArchive::open(context.reactor, local));
  const http::BodySource source = [&](std::span<char> buffer) {
    return archive->read(buffer, tally.bytes);
  };
  Api api{context.reactor, context.endpoint};
  CO_TRY(const Json unpacked,
         co_await api.upload(remote.path_of("/archive", target), std::nullopt, source));
  for (const auto& [key, count] :
       {std::pair{"files", &tally.files}, std::pair{"directories", &tally.directories},
        std::pair{"symlinks", &tally.links}}) {
    const Json* number = unpacked.find(key);
    if (number != nullptr && number->as_integer() != nullptr) {
      *count = static_cast<std::uint64_t>(*number->as_integer());
    }
  }
  co_return target;
}

Task<std::string> copy(CommandContext& context, const CopyPlace& source,
                       const CopyPlace& destination, CopyTally& tally) {
  const auto& inside = source.kind == Kind::kSandbox ? source : destination;
  const std::string path = inside.path.empty() ? "/" : inside.path;
  Api api{context.reactor, context.endpoint};
  RemoteFiles remote{api, RemoteFiles::Where::kVolume, inside.sandbox_id, {}};
  if (source.kind == Kind::kSandbox) {
    Download download{context, remote, tally};
    co_return co_await download.run(path, local_text(destination));
  }
  if (is_local_directory(source)) {
    CO_TRY(auto target, co_await send_directory(context, remote, source.path, path, tally));
    co_return concat(inside.sandbox_id, ":", target);
  }
  Upload upload{context, remote, tally};
  CO_TRY(auto target, co_await upload.run(local_text(source), path));
  co_return concat(inside.sandbox_id, ":", target);
}

}  // namespace

Task<int> copy_volume_files(CommandContext& context, const VolumeOptions& options) {
  const auto source = parse_place(options.names[0]);
  const auto destination = parse_place(options.names[1]);
  CO_TRY_DO(check_places(source, destination, context.options.json));
  CopyTally tally;
  const Instant started = context.reactor.now();
  const auto describe = [&] {
    const std::chrono::duration<double> elapsed = context.reactor.now() - started;
    return describe_transfer(tally.bytes, tally.total_bytes, elapsed.count());
  };
  CO_TRY(const auto target, co_await with_progress(context.console, context.options.quiet, describe,
                                                   copy(context, source, destination, tally)));
  if (context.options.json) {
    context.console.print(Json::object({{"source", options.names[0]},
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
