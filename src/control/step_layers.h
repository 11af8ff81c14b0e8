// The layers of a build, one after the other: each is made by work in a cell over those before it,
// unless it is there.
//
// A layer's id is a hash of everything that determines its content: what its step says and the
// layers below. So the cache is the set of layers that exist, and two equal builds share them.
// Whatever describes a build (a Dockerfile, a list of steps) makes its layers here. Loop thread
// only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "control/guest_trees.h"
#include "control/layer_factory.h"
#include "oci/context.h"

namespace atl::control {

struct NewLayer {
  std::vector<std::string> ingredients;  // all its content depends on, besides the layers below
  bool use_cache = true;
  BuildNetwork network;
};

class StepLayers {
 public:
  // `cached` is told about a layer that was there.
  StepLayers(LayerFactory& factory, std::function<void(const std::string& layer)> cached)
      : factory_(factory), cached_(std::move(cached)) {}

  // Puts it on top of `layers` (topmost first). kInvalidArgument when there are too many.
  Task<> add(NewLayer layer, std::vector<std::string>& layers, CellWork work);

 private:
  LayerFactory& factory_;
  std::function<void(const std::string&)> cached_;
};

// Runs a command in a cell; `output` is given what it prints. Fails with reason step_failed and
// "the command failed with exit code 1" unless it ends well.
Task<> run_in_build(const BuildCell& cell, guest::SpawnRequest request, std::string input,
                    std::function<void(const guest::Output&)> output);

// Where files of a context go, and whose they become.
struct CopyWork {
  std::shared_ptr<const oci::BuildContext> context;
  oci::CopyRequest request;
  TreeChanges changes;
  TreeChanges archive_changes;  // of what ADD unpacks
};
// Into a cell; a destination that is a directory there takes files below it.
Task<> copy_in_build(LayerFactory& factory, const BuildCell& cell, CopyWork work);

// "/a", "../b" -> "/b"
std::string join_path(std::string_view base, std::string_view path);
// A small text file of a cell; kNotFound.
Task<std::string> read_in_build(const GuestClient& guest, std::string path);

}  // namespace atl::control
