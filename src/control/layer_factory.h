// Layers made by working in a sandbox: a build cell over some layers, whose upper is then kept.
//
// A build cell is a sandbox like any other (own ids, limits, no network unless asked for), so
// whatever an image or a RUN contains is confined exactly like a user's code. It ends with its
// work, also when that fails or is cancelled. Loop thread only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "control/guest_client.h"
#include "control/guest_trees.h"
#include "control/sandboxes.h"
#include "io/offload.h"
#include "oci/image.h"

namespace atl::control {

// Layers of ours begin like this; the collector looks at no others.
inline constexpr std::string_view kImageLayerPrefix = "img-";
inline constexpr std::string_view kBuildLayerPrefix = "bld-";

struct BuildCell {
  std::string id;
  GuestClient guest;
  std::string guest_socket;
};
// What a build may reach: nothing, what the host reaches, or what sandboxes of a template reach.
struct BuildNetwork {
  enum class Kind : std::uint8_t { kNone, kHost, kSandbox };
  Kind kind = Kind::kNone;
  std::string team_id;  // of kSandbox: whose rules count
  std::string template_name;
};
using CellWork = std::function<Task<>(const BuildCell& cell)>;

class LayerFactory {
 public:
  struct Parts {
    io::Reactor& reactor;
    io::OffloadPool& pool;  // for reading archives
    node::Node& node;
    Sandboxes& sandboxes;
    store::Limits limits;  // of a build cell
  };
  explicit LayerFactory(Parts parts) : parts_(parts) {}

  Task<bool> has(std::string layer);
  // `layer` becomes what `work` changed in a sandbox over `below` (topmost first).
  Task<> make(std::string layer, std::vector<std::string> below, const CellWork& work,
              BuildNetwork network = {});
  // The same without a layer: only to look.
  Task<> look(std::vector<std::string> below, const CellWork& work);
  // To look at trees without running anything of them, in a cell that is otherwise empty.
  Task<> look_at(std::vector<node::View> views, const CellWork& work);
  // `layer` becomes what the snapshot has above `below`.
  Task<> keep_snapshot(std::string layer, std::vector<std::string> below, std::string snapshot);
  // The one layer of an OCI layout on disk; made when it is not there yet.
  Task<std::string> import_image(const oci::Image& image,
                                 std::function<void(std::string_view)> note);

  io::Reactor& reactor() { return parts_.reactor; }
  io::OffloadPool& pool() { return parts_.pool; }
  node::Node& node() { return parts_.node; }

 private:
  Task<> run_in_cell(node::CreateRequest request, const CellWork& work, std::string layer,
                     BuildNetwork network = {});
  Task<> work_in(const node::CellInfo& cell, const CellWork& work, const BuildNetwork& network);
  node::CreateRequest cell_over(std::vector<std::string> below,
                                const BuildNetwork& network = {}) const;
  Task<> destroy(std::string id);

  Parts parts_;
};

}  // namespace atl::control
