#include "control/diffs.h"

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/image_export.h"
#include "control/limits.h"

namespace atl::control {
namespace {

// Counts for as long as it lives.
class Turn {
 public:
  Turn(std::map<std::string, std::size_t>& running, std::string team_id)
      : running_(running), team_id_(std::move(team_id)) {
    ++running_[team_id_];
  }
  ~Turn() {
    if (--running_[team_id_] == 0) {
      running_.erase(team_id_);
    }
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::map<std::string, std::size_t>& running_;
  std::string team_id_;
};

// The trees that a cell is shown, each once, and where it finds them.
class Views {
 public:
  std::string add(node::View view) {
    const auto known = std::ranges::find(views_, view);
    const auto index = static_cast<std::size_t>(known - views_.begin());
    if (known == views_.end()) {
      views_.push_back(std::move(view));
    }
    return concat("/views/", index);
  }
  std::vector<std::string> add_root(const std::vector<std::string>& layers,
                                    const std::string& snapshot) {
    std::vector<std::string> places;
    if (!snapshot.empty()) {
      places.push_back(add({node::View::Kind::kSnapshot, snapshot}));
    }
    for (const std::string& layer : layers) {
      places.push_back(add({node::View::Kind::kLayer, layer}));
    }
    return places;
  }
  const std::vector<node::View>& all() const { return views_; }

 private:
  std::vector<node::View> views_;
};

}  // namespace

Diffs::Diffs(Parts parts)
    : parts_(std::move(parts)),
      factory_({parts_.reactor, parts_.pool, parts_.node, parts_.sandboxes, parts_.limits}) {}

Task<> Diffs::start() {
  std::error_code error;
  std::filesystem::remove_all(parts_.directory, error);
  std::filesystem::create_directory(parts_.directory, error);
  if (error) {
    co_return fail(errno_error(concat("preparing ", parts_.directory), error.value()));
  }
  co_return ok();
}

Result<> Diffs::take_turn(const std::string& team_id) const {
  std::size_t running = 0;
  for (const auto& [team, count] : running_) {
    running += count;
  }
  const auto of_team = running_.find(team_id);
  if (running >= kMaxDiffsAtOnce ||
      (of_team != running_.end() && of_team->second >= kMaxDiffsPerTeam)) {
    return fail(Code::kUnavailable,
                "there are too many comparisons under way already; try again later");
  }
  return {};
}

Task<> Diffs::compare(DiffQuery query, bool contents, const Compare& work) {
  CO_TRY_DO(take_turn(query.team_id));
  const Turn turn{running_, query.team_id};
  CO_TRY(const Snapshot to, co_await parts_.snapshots.hold(query.team_id, query.subject));
  auto compared = co_await compare_with(query, to, contents, work);
  (void)co_await parts_.snapshots.release(to.id);
  co_return std::move(compared);
}

Task<> Diffs::compare_with(const DiffQuery& query, const Snapshot& to, bool contents,
                           const Compare& work) {
  Snapshot from{.layers = to.layers};
  if (query.from) {
    CO_TRY(from, co_await parts_.snapshots.hold(query.team_id, *query.from));
  }
  Views views;
  guest::DiffRequest request{.from = views.add_root(from.layers, from.id),
                             .to = views.add_root(to.layers, to.id),
                             .contents = contents};
  const CellWork in_cell = [&work, &request](const BuildCell& cell) { return work(cell, request); };
  auto compared = co_await factory_.look_at(views.all(), in_cell);
  if (query.from) {
    (void)co_await parts_.snapshots.release(from.id);
  }
  co_return std::move(compared);
}

Task<> Diffs::list(DiffQuery query, const Each& each) {
  const Compare work = [this, &each](const BuildCell& cell, guest::DiffRequest request) {
    return list_in(cell, std::move(request), each);
  };
  co_return co_await compare(std::move(query), false, work);
}

Task<> Diffs::list_in(const BuildCell& cell, guest::DiffRequest request, const Each& each) {
  CO_TRY(const auto stream,
         co_await DiffStream::open(parts_.reactor, cell.guest_socket, std::move(request)));
  for (;;) {
    CO_TRY(const auto item, co_await stream->next());
    if (item.kind == guest::Kind::kEnd) {
      co_return ok();
    }
    CO_TRY(const bool more, co_await each(item.change));
    if (!more) {
      co_return ok();
    }
  }
}

Task<> Diffs::archive(DiffQuery query, oci::ArchiveFormat format, const Write& write) {
  const Compare work = [this, format, &write](const BuildCell& cell, guest::DiffRequest request) {
    return archive_in(cell, std::move(request), format, write);
  };
  co_return co_await compare(std::move(query), true, work);
}

Task<> Diffs::archive_in(const BuildCell& cell, guest::DiffRequest request,
                         oci::ArchiveFormat format, const Write& write) {
  CO_TRY(auto stream,
         co_await DiffStream::open(parts_.reactor, cell.guest_socket, std::move(request)));
  DiffArchive archive{parts_.pool, std::move(stream), format};
  for (;;) {
    CO_TRY(const std::string bytes, co_await archive.next());
    if (bytes.empty()) {
      co_return ok();
    }
    CO_TRY_DO(co_await write(bytes));
  }
}

// What a sandbox of this template gets, so that it means the same wherever it is imported.
oci::ImageConfig Diffs::config_of(std::string_view team_id,
                                  const std::string& template_name) const {
  const TemplateDefaults& defaults = parts_.sandboxes.templates().defaults(template_name, team_id);
  oci::ImageConfig config;
  config.env = defaults.env;
  config.user = defaults.user;
  config.working_dir = defaults.cwd;
  return config;
}

Task<> Diffs::export_image(std::string team_id, StateRef subject, oci::ArchiveFormat format,
                           const Write& write) {
  CO_TRY_DO(take_turn(team_id));
  CO_TRY_DO(parts_.scratch.check(team_id, 0));
  const Turn turn{running_, team_id};
  CO_TRY(const Snapshot root, co_await parts_.snapshots.hold(team_id, std::move(subject)));
  Views views;
  const std::vector<std::string> places = views.add_root(root.layers, root.id);
  ImageExport image{{.reactor = parts_.reactor,
                     .pool = parts_.pool,
                     .scratch = parts_.scratch,
                     .team_id = team_id,
                     .directory = parts_.directory,
                     .format = format,
                     .config = config_of(team_id, root.template_name)}};
  const CellWork in_cell = [&image, &places, &write](const BuildCell& cell) {
    return image.run(cell.guest_socket, places, write);
  };
  auto exported = co_await factory_.look_at(views.all(), in_cell);
  (void)co_await parts_.snapshots.release(root.id);
  co_return std::move(exported);
}

}  // namespace atl::control
