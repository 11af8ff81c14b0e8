#include "control/layer_factory.h"

#include <algorithm>

#include "base/log.h"
#include "base/random.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"
#include "oci/image_tree.h"

namespace atl::control {
namespace {

Task<> keep(Task<guest::TreeDone> writing, guest::TreeDone& done) {
  CO_TRY(done, co_await std::move(writing));
  co_return ok();
}

// Node and sandboxes know the cell for exactly as long as this lives.
class Adoption {
 public:
  Adoption(Sandboxes& sandboxes, std::string id) : sandboxes_(sandboxes), id_(std::move(id)) {
    sandboxes_.adopt_cell(id_);
  }
  ~Adoption() { sandboxes_.release_cell(id_); }
  Adoption(const Adoption&) = delete;
  Adoption& operator=(const Adoption&) = delete;

 private:
  Sandboxes& sandboxes_;
  std::string id_;
};

}  // namespace

Task<bool> LayerFactory::has(std::string layer) {
  CO_TRY(const auto layers, co_await with_deadline(kNodeTimeout, parts_.node.list_layers()));
  co_return std::ranges::find(layers, layer) != layers.end();
}

node::CreateRequest LayerFactory::cell_over(std::vector<std::string> below,
                                            const BuildNetwork& network) const {
  if (below.empty()) {
    below.emplace_back(node::kEmptyLayer);
  }
  return {.id = concat(node::kBuildCellPrefix, random_label(12)),
          .hostname = "build",
          .layers = std::move(below),
          .limits = {parts_.limits.memory_bytes, parts_.limits.cpu_millis,
                     parts_.limits.process_count, parts_.limits.disk_bytes},
          .host_network = network.kind == BuildNetwork::Kind::kHost,
          .egress = network.kind == BuildNetwork::Kind::kSandbox && parts_.sandboxes.has_egress()};
}

Task<> LayerFactory::make(std::string layer, std::vector<std::string> below, const CellWork& work,
                          BuildNetwork network) {
  node::CreateRequest request = cell_over(std::move(below), network);
  return run_in_cell(std::move(request), work, std::move(layer), std::move(network));
}

Task<> LayerFactory::look(std::vector<std::string> below, const CellWork& work) {
  return run_in_cell(cell_over(std::move(below)), work, "");
}

Task<> LayerFactory::look_at(std::vector<node::View> views, const CellWork& work) {
  node::CreateRequest request = cell_over({});
  request.views = std::move(views);
  return run_in_cell(std::move(request), work, "");
}

Task<> LayerFactory::keep_snapshot(std::string layer, std::vector<std::string> below,
                                   std::string snapshot) {
  node::CreateRequest request = cell_over(std::move(below));
  request.from_snapshot = std::move(snapshot);
  // Its disk may be larger than that of a build.
  request.limits.disk_bytes = 0;
  const CellWork nothing = [](const BuildCell&) -> Task<> { co_return ok(); };
  co_return co_await run_in_cell(std::move(request), nothing, std::move(layer));
}

Task<> LayerFactory::run_in_cell(node::CreateRequest request, const CellWork& work,
                                 std::string layer, BuildNetwork network) {
  const std::string id = request.id;
  const Adoption adoption{parts_.sandboxes, id};
  auto cell = co_await shielded(with_deadline(kNodeTimeout, parts_.node.create(request)));
  Result<> outcome;
  if (!cell) {
    outcome = fail(std::move(cell).error().note("starting a sandbox for the build"));
  } else {
    outcome = co_await work_in(*cell, work, network);
  }
  if (outcome && !layer.empty()) {
    outcome = co_await shielded(
        with_deadline(kCommitTimeout, parts_.node.commit_layer({.id = id, .layer = layer})));
    if (outcome) {
      co_return ok();
    }
    if (outcome.error().code == Code::kAlreadyExists) {
      outcome = {};  // another build made the same one meanwhile
    }
  }
  auto destroyed = co_await shielded(destroy(id));
  if (!destroyed) {
    // The node removes it at its next start, or the next reconciliation does.
    LOG_WARN("a build's sandbox stays for now", {"cell", id}, {"error", destroyed.error()});
  }
  co_return std::move(outcome);
}

Task<> LayerFactory::work_in(const node::CellInfo& cell, const CellWork& work,
                             const BuildNetwork& network) {
  const BuildCell build{cell.id, GuestClient{parts_.reactor, cell.guest_socket}, cell.guest_socket};
  if (network.kind != BuildNetwork::Kind::kSandbox) {
    co_return co_await work(build);
  }
  Sandbox as;
  as.id = cell.id;
  as.team_id = network.team_id;
  as.template_name = network.template_name;
  Result<> outcome = co_await parts_.sandboxes.join_network(std::move(as), cell);
  if (outcome) {
    outcome = co_await work(build);
  }
  parts_.sandboxes.leave_network(cell.id);
  co_return std::move(outcome);
}

Task<> LayerFactory::destroy(std::string id) {
  return with_deadline(kNodeTimeout, parts_.node.destroy({.id = std::move(id)}));
}

Task<std::string> LayerFactory::import_image(const oci::Image& image,
                                             std::function<void(std::string_view)> note) {
  const std::string layer = concat(kImageLayerPrefix, image.digest.substr(0, 40));
  CO_TRY(const bool there, co_await has(layer));
  if (there) {
    note(concat("the image is here already (sha256:", image.digest.substr(0, 12), ")"));
    co_return layer;
  }
  note(concat("checking ", image.layers.size(), " layers"));
  CO_TRY(const auto tree, co_await parts_.pool.run([&image] {
    return oci::open_image_tree(image.layers, {.unpacked_bytes = kMaxImageBytes});
  }));
  note("unpacking them into a sandbox");
  guest::TreeDone done;
  const CellWork work = [&](const BuildCell& cell) {
    return keep(write_tree(parts_.reactor, parts_.pool,
                           {.guest_socket = cell.guest_socket, .path = "/"}, *tree),
                done);
  };
  CO_TRY_DO(co_await make(layer, {}, work));
  note(concat("unpacked ", done.files, " files, ", format_quantity(done.bytes), " bytes"));
  co_return layer;
}

}  // namespace atl::control
