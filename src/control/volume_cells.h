// Cells that serve the files of volumes while no sandbox does.
//
// The whole file API is the guest's: so a volume's files are served by a guest too, in a cell that
// has nothing but the volume, no network and small limits. It is started when somebody asks and
// ends when nobody has asked for a while. Its root is the volume itself, so a link in it leads
// nowhere else, and no privileged code ever walks what a sandbox wrote. These cells are nobody's
// sandboxes: whatever an earlier process left of them is destroyed at the start like every cell
// without a row. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "control/files.h"
#include "control/sandboxes.h"

namespace atl::control {

class VolumeCells {
 public:
  VolumeCells(io::Reactor& reactor, node::Node& node, Sandboxes& sandboxes)
      : reactor_(&reactor), node_(node), sandboxes_(sandboxes) {}
  VolumeCells(const VolumeCells&) = delete;
  VolumeCells& operator=(const VolumeCells&) = delete;

  // The files of the volume; its cell stays as long as they live.
  Task<std::unique_ptr<Files>> open(store::Volume volume);
  // Ends the cell, whoever uses it: the volume is about to change under it.
  Task<> close(std::string volume_id);
  // Ends those that nobody uses, until cancelled. Those of a process that ends are cleaned up by
  // the next one.
  Task<> run();

 private:
  struct Cell {
    std::string id;
    std::string team_id;
    std::string guest_socket;  // empty: nobody can be served by it
    bool may_exist = false;    // the node may have it; also while it is being started
    bool busy = false;         // being started or ended
    std::uint64_t starts = 0;  // which of its lives this is
    std::size_t uses = 0;
    Instant last_used{};
    Event released;
  };
  using CellPointer = std::shared_ptr<Cell>;
  class Use;
  class Busy;
  class LeasedFiles;

  Task<GuestClient> ready_client(CellPointer cell, std::string volume_id);
  Task<> start(CellPointer cell, std::string volume_id);
  Task<> create(CellPointer cell, std::string volume_id);
  Task<> end(CellPointer cell);
  Task<> destroy(CellPointer cell);
  Task<> wait_until_free(CellPointer cell);
  Task<> make_room(std::string team_id);
  Task<> end_idle();

  io::Reactor* reactor_;
  node::Node& node_;
  Sandboxes& sandboxes_;
  std::map<std::string, CellPointer, std::less<>> cells_;  // by volume
};

}  // namespace atl::control
