// volume: directories that outlive sandboxes.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>
#include <cstdlib>

#include "base/strings.h"
#include "cli/grammar.h"

namespace atl::cli {
namespace {

using Action = VolumeOptions::Action;

struct ActionWords {
  std::string_view name;
  Action action;
  std::size_t least;  // words after it
  std::size_t most;
  std::string_view usage;
};
constexpr std::size_t kAnyNumber = ~std::size_t{0};
constexpr std::array<ActionWords, 10> kActions{{
    {"create", Action::kCreate, 0, 0, ""},
    {"ls", Action::kList, 0, 0, ""},
    {"show", Action::kShow, 1, 1, " VOLUME"},
    {"cp", Action::kCopy, 2, 2, " FILE|DIR VOLUME:/path, or VOLUME:/path FILE|DIR"},
    {"fork", Action::kFork, 1, 1, " VOLUME"},
    {"snapshot", Action::kSnapshot, 1, 1, " VOLUME"},
    {"snapshots", Action::kSnapshots, 1, 1, " VOLUME"},
    {"restore", Action::kRestore, 2, 2, " VOLUME SNAPSHOT"},
    {"forget", Action::kForget, 2, kAnyNumber, " VOLUME SNAPSHOT..."},
    {"rm", Action::kRemove, 1, kAnyNumber, " VOLUME..."},
}};

void add_s3_options(CLI::App& app, VolumeOptions& options) {
  app.add_option("--s3", options.s3_bucket,
                 "create: keep the files in this bucket; keys from $AWS_ACCESS_KEY_ID and "
                 "$AWS_SECRET_ACCESS_KEY")
      ->type_name("BUCKET[/PREFIX]");
  app.add_option("--s3-endpoint", options.s3_endpoint, "create: address of the bucket's server")
      ->type_name("URL");
  app.add_option("--s3-region", options.s3_region, "create: region of the bucket")
      ->type_name("REGION");
}

void add_volume(CLI::App& app, Raw& raw) {
  auto& options = raw.volume;
  std::vector<std::string> words;
  words.reserve(std::size(kActions));
  for (const auto& each : kActions) {
    words.emplace_back(each.name);
  }
  add_choice(app, raw, "ACTION", raw.what, std::move(words),
             "create, ls, show, cp, fork, snapshot, snapshots, restore, forget or rm")
      ->required();
  app.add_option("VOLUME", options.names, "The volume; cp: SOURCE DESTINATION");
  add_choice(app, raw, "--mode", options.access_mode, {"RWO", "ROX", "RWX"},
             "create, fork: one writer, many readers, or many writers [RWO]")
      ->type_name("MODE");
  app.add_option("--size", options.size, "create: how much it can hold, such as 1Gi")
      ->type_name("SIZE");
  app.add_option("--uid", options.uid, "create, fork: who owns what the API makes")->type_name("N");
  app.add_option("--gid", options.gid, "create, fork: and its group")->type_name("N");
  app.add_option("--snapshot", options.snapshot_id, "create: begin as this snapshot of a volume")
      ->type_name("SNAPSHOT");
  app.add_option("-n,--name", options.name, "snapshot: what to call it [the time]")
      ->type_name("NAME");
  app.add_option("--description", options.description, "snapshot: what it is about")
      ->type_name("TEXT");
  app.add_option("--expires", raw.ttl, "snapshot: delete it after this time")->type_name("SECS");
  app.add_flag("-f,--force", options.force, "rm, restore: also when sandboxes have it mounted");
  add_s3_options(app, options);
}

std::string environment_text(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string{value};
}

Result<> finish_s3(VolumeOptions& options) {
  if (options.s3_bucket.empty()) {
    return {};
  }
  options.s3_access_key = environment_text("AWS_ACCESS_KEY_ID");
  options.s3_secret_key = environment_text("AWS_SECRET_ACCESS_KEY");
  options.s3_session_token = environment_text("AWS_SESSION_TOKEN");
  if (options.s3_access_key.empty() || options.s3_secret_key.empty()) {
    return usage_error("--s3 wants the keys in $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY");
  }
  return {};
}

Result<Command> finish_volume(Raw& raw) {
  auto& options = raw.volume;
  for (const auto& each : kActions) {
    if (each.name != raw.what) {
      continue;
    }
    options.action = each.action;
    if (options.names.size() < each.least || options.names.size() > each.most) {
      return usage_error(concat("write: atoll volume ", each.name, each.usage));
    }
  }
  if (!raw.ttl.empty()) {
    TRY(options.expires_seconds, parse_seconds(raw.ttl));
  }
  TRY_DO(finish_s3(options));
  return options;
}

constexpr std::array<CommandGrammar, 1> kVolumeGrammar{{
    {.name = "volume", .add_options = add_volume, .finish = finish_volume},
}};

}  // namespace

std::span<const CommandGrammar> volume_grammar() {
  return kVolumeGrammar;
}

}  // namespace atl::cli
