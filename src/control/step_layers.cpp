#include "control/step_layers.h"

#include "base/random.h"
#include "base/strings.h"
#include "control/limits.h"
#include "oci/digest.h"

namespace atl::control {
namespace {

// One string that two different lists never share.
std::string digest_of(const std::vector<std::string>& ingredients) {
  oci::Sha256 digest;
  for (const std::string& ingredient : ingredients) {
    digest.update(concat(ingredient.size(), ":", ingredient));
  }
  return digest.hex_digest();
}

}  // namespace

Task<> StepLayers::add(NewLayer layer, std::vector<std::string>& layers, CellWork work) {
  std::vector<std::string> all = std::move(layer.ingredients);
  all.emplace_back("layers");
  all.insert(all.end(), layers.begin(), layers.end());
  if (!layer.use_cache) {
    all.push_back(random_hex(32));
  }
  const std::string id = concat(kBuildLayerPrefix, digest_of(all).substr(0, 40));
  if (layers.size() + 1 >= node::kMaxLayersPerCell) {
    co_return fail(Code::kInvalidArgument,
                   concat("the image has more than ", node::kMaxLayersPerCell - 2,
                          " layers; join RUN, COPY and ADD instructions"),
                   "dockerfile");
  }
  CO_TRY(const bool there, co_await factory_.has(id));
  if (there) {
    cached_(id);
  } else {
    CO_TRY_DO(co_await factory_.make(id, layers, work, std::move(layer.network)));
  }
  layers.insert(layers.begin(), id);
  co_return ok();
}

Task<> run_in_build(const BuildCell& cell, guest::SpawnRequest request, std::string input,
                    std::function<void(const guest::Output&)> output) {
  CO_TRY(const auto process, co_await cell.guest.spawn(std::move(request)));
  if (!input.empty()) {
    CO_TRY_DO(co_await process->send_input(input));
    CO_TRY_DO(co_await process->end_input());
  }
  for (;;) {
    CO_TRY(const auto event, co_await process->next());
    if (const auto* printed = std::get_if<guest::Output>(&event)) {
      output(*printed);
      continue;
    }
    const auto& exit = std::get<guest::ExitStatus>(event);
    if (exit.exited && exit.exit_code == 0) {
      co_return ok();
    }
    const std::string how = exit.timed_out ? "took too long and was ended"
                            : exit.exited  ? concat("failed with exit code ", exit.exit_code)
                                           : concat("was ended by signal ", exit.signal);
    co_return fail(Code::kFailedPrecondition, concat("the command ", how), "step_failed");
  }
}

Task<> copy_in_build(LayerFactory& factory, const BuildCell& cell, CopyWork work) {
  oci::CopyRequest& exact = work.request;
  if (!exact.destination.ends_with('/')) {
    const auto there = co_await cell.guest.stat({.path = exact.destination});
    exact.destination_is_directory = there && there->type == guest::FileType::kDirectory;
  }
  const oci::BuildContext& context = *work.context;
  CO_TRY(const auto plans,
         co_await factory.pool().run([&] { return oci::plan_copy(context, exact); }));
  for (const oci::CopyPlan& plan : plans.plans) {
    const auto tree = oci::open_copy_tree(context, plan);
    CO_TRY_DO(co_await write_tree(factory.reactor(), factory.pool(),
                                  {cell.guest_socket, plan.root, work.changes}, *tree));
  }
  for (const oci::ContextEntry& archive : plans.archives) {
    CO_TRY(const auto tree, oci::open_archive_tree(context, archive, {}));
    CO_TRY_DO(co_await write_tree(factory.reactor(), factory.pool(),
                                  {cell.guest_socket, exact.destination, work.archive_changes},
                                  *tree));
  }
  co_return ok();
}

std::string join_path(std::string_view base, std::string_view path) {
  std::vector<std::string_view> parts;
  const std::string whole = path.starts_with('/') ? std::string{path} : concat(base, "/", path);
  for (const std::string_view part : split(whole, '/')) {
    if (part == "..") {
      if (!parts.empty()) {
        parts.pop_back();
      }
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
  }
  std::string out;
  for (const std::string_view part : parts) {
    out += concat("/", part);
  }
  return out.empty() ? "/" : out;
}

Task<std::string> read_in_build(const GuestClient& guest, std::string path) {
  constexpr std::size_t kMaxBytes = 1U << 20;
  CO_TRY(const auto reader,
         co_await guest.read_file({.path = std::move(path), .length = kMaxBytes}));
  std::string text;
  for (;;) {
    CO_TRY(const auto piece, co_await reader->next());
    if (piece.empty()) {
      co_return text;
    }
    text += piece;
    if (text.size() > kMaxBytes) {
      co_return fail(Code::kResourceExhausted, "the file is too large");
    }
  }
}

}  // namespace atl::control
