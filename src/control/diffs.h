// What has changed: a sandbox or a snapshot against another one, or against its template.
//
// An upper is what a sandbox made of its layers, so a diff is a comparison of two stacks of trees,
// and these are hostile: deep, huge, full of links and odd names. Root never parses them. The node
// only shows them, read-only, to a cell that has nothing else in it (own ids, own limits, no
// network), and the guest in there compares (guest/file_diff.cpp); the worst a tree can do is to
// break the cell that looks at it. This is the machinery of builds used once more: no second kind
// of privileged helper, and the end of the client's connection ends the cell.
//
// A sandbox is looked at as it is at one moment (Snapshots::hold). Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/diff_stream.h"
#include "control/layer_factory.h"
#include "control/scratch.h"
#include "control/snapshots.h"
#include "oci/image.h"

namespace atl::control {

struct DiffQuery {
  std::string team_id = store::kDefaultTeam;
  StateRef subject;
  std::optional<StateRef> from;  // none: its template, as it was when the sandbox was made
};

class Diffs {
 public:
  struct Parts {
    io::Reactor& reactor;
    io::OffloadPool& pool;  // for compressing
    node::Node& node;
    Sandboxes& sandboxes;
    Snapshots& snapshots;
    Scratch& scratch;
    store::Limits limits;   // of the cell that compares
    std::string directory;  // of ours alone, for layers on their way; emptied at the start
  };
  // False: nothing more is wanted.
  using Each = std::function<Task<bool>(const guest::Change& change)>;
  using Write = std::function<Task<>(std::string_view bytes)>;

  explicit Diffs(Parts parts);
  Diffs(const Diffs&) = delete;
  Diffs& operator=(const Diffs&) = delete;

  Task<> start();
  // Every change, sorted.
  Task<> list(DiffQuery query, const Each& each);
  // The change as a layer.
  Task<> archive(DiffQuery query, oci::ArchiveFormat format, const Write& write);
  // The whole as an OCI archive: a layer for each layer of its template, and one above.
  Task<> export_image(std::string team_id, StateRef subject, oci::ArchiveFormat format,
                      const Write& write);

 private:
  using Compare = std::function<Task<>(const BuildCell& cell, guest::DiffRequest request)>;

  Result<> take_turn(const std::string& team_id) const;
  Task<> compare(DiffQuery query, bool contents, const Compare& work);
  Task<> compare_with(const DiffQuery& query, const Snapshot& to, bool contents,
                      const Compare& work);
  Task<> list_in(const BuildCell& cell, guest::DiffRequest request, const Each& each);
  Task<> archive_in(const BuildCell& cell, guest::DiffRequest request, oci::ArchiveFormat format,
                    const Write& write);
  oci::ImageConfig config_of(std::string_view team_id, const std::string& template_name) const;

  Parts parts_;
  LayerFactory factory_;
  std::map<std::string, std::size_t> running_;  // by team
};

}  // namespace atl::control
