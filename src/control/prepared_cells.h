// Cells that are ready before anybody asks for them, so that a claim makes nothing.
//
// A prepared cell is a whole one: it has the id, host name, disk, limits, network and agent of the
// sandbox it will be, but no row. A claim takes one out and writes the row; from that moment it is
// that sandbox's and never comes back, whatever becomes of the claim. Without one of its kind a
// claim makes its cell itself, as it always could.
//
// A kind is template, layers, limits, /tmp and the form of the id: whatever the node must know
// before. A claim that wants less than a kind has (memory, cpu, disk) takes one of it and has it
// tightened. How many of each are kept follows what was asked for lately (prepared_demand.h),
// within the bounds of the template (spec.pool), and within the memory for all, of which no team's
// templates have more than half in advance. More are made one after another on connections of their
// own, and hardly any while claims make cells themselves. When the memory of the host is short, all
// go.
//
// They belong to this process: the next one finds cells without rows and destroys them; a node
// that was lost takes them along; an orderly end destroys them. Loop thread only.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/scope.h"
#include "control/prepared_demand.h"
#include "control/sandbox_requests.h"
#include "control/templates.h"
#include "node/client.h"

namespace atl::control {

class Sandboxes;

struct PreparedOptions {
  std::size_t max_idle = 0;        // of a template that says nothing else; 0: no cell is prepared
  std::uint64_t memory_bytes = 0;  // for all of them
  std::size_t at_once = 1;         // that are made side by side
  std::function<bool()> memory_is_short;  // then none is made; empty: never
  // Done to each before it is given to anybody; empty: nothing.
  std::function<Task<>(std::string guest_socket)> warm_up;
};

// Of this host: a sixteenth of its memory for cells that wait, and half of its cores to make them.
PreparedOptions host_prepared_options(std::size_t max_idle);

class PreparedCells {
 public:
  struct Parts {
    Loop& loop;
    node::Node& node;  // its connections are used for nothing else
    Sandboxes& sandboxes;
    Metrics& metrics;
    PreparedOptions options;
  };
  explicit PreparedCells(Parts parts);
  ~PreparedCells();
  PreparedCells(const PreparedCells&) = delete;
  PreparedCells& operator=(const PreparedCells&) = delete;

  // Keeps as many ready as are wanted, until cancelled; then destroys them all.
  Task<> run();

  struct Taken {
    node::CellInfo cell;
    bool fits = true;  // false: its limits are wider than the row's
  };
  // The id of the one that take() gives when nothing else happens before; empty: there is none.
  std::string next_id(const Sandbox& row, IdStyle style) const;
  // One for this row, which has all but its id. It is the caller's. Counts as a claim either way.
  std::optional<Taken> take(const Sandbox& row, IdStyle style);
  // One that was taken and is no sandbox's: destroyed in the background.
  void discard(std::string id);
  // Cells that an earlier process left: destroyed in the background too. Nobody waits for it.
  void destroy_orphans(std::vector<std::string> ids);
  // A claim makes cells itself: `change` more of them.
  void note_making(std::ptrdiff_t change);
  // A cell has died: perhaps one of these.
  void on_died(std::string_view id);
  // Whether the memory of the host is short: then all are given back.
  void on_memory(bool is_short);
  // The node is there; or it was lost, and who comes back to it destroys what has no row.
  void on_node_ready() { changed_.set(); }
  void on_node_lost();

  std::size_t idle_of(std::string_view template_name) const;
  PoolBounds bounds_of(std::string_view template_name) const;
  std::set<std::string> used_layers() const;
  // Returns when no cell of what a template was before is left, or when that takes too long. Fails
  // when there may be cells of layers that nobody knows.
  Task<> drain_stale();

 private:
  struct Kind;
  using KindPointer = std::shared_ptr<Kind>;  // shared by the table and the makers of its cells

  Kind* find(const Sandbox& row, IdStyle style) const;
  Kind* wider(const Sandbox& row, IdStyle style) const;
  Kind* learn(const Sandbox& row, IdStyle style);
  Taken pop(Kind& kind, bool fits);
  bool makes_room_for_kind(std::string_view team_id);
  std::string team_of(const Kind& kind, const Sandbox& row) const;
  bool is_behind(const Kind& kind) const;
  void describe(Kind& kind) const;
  void review();
  void condemn(std::string id);
  void condemn_idle(Kind& kind, std::size_t keep);
  void look_at_memory(Instant now, Instant& next);
  std::vector<Wish> wishes(Instant now) const;
  void split_minima(std::vector<Wish>& wishes) const;
  void allot_targets(Instant now, Instant& next);
  void forget_unwanted(Instant now);
  Instant begin_work(Scope& scope);
  Kind* neediest(Instant now, Instant& next) const;
  bool may_make() const;
  Task<> make(KindPointer kind);
  void keep(const KindPointer& kind, node::CellInfo cell, Duration took);
  void back_off(Kind& kind);
  Task<> destroy_condemned();
  Task<> destroy_all(Scope& scope);
  bool has_stale() const;
  Gauge& gauge_of(const std::string& template_name);
  static void count(const Kind& kind, std::ptrdiff_t change);

  Parts parts_;
  std::vector<KindPointer> kinds_;  // sorted by template
  std::deque<std::string> condemned_;
  std::set<std::string, std::less<>> orphans_;  // of those; what layers they have nobody knows
  std::vector<KindPointer> making_;             // one for each cell
  // Their ids, and whether each has died already: the news of it may come before the answer.
  std::map<std::string, bool, std::less<>> being_made_;
  std::size_t claims_making_ = 0;  // cells
  std::size_t destroying_ = 0;
  std::uint64_t session_ = 0;  // of the node; cells of an earlier one are forgotten
  bool running_ = false;
  bool ending_ = false;
  bool templates_changed_ = true;
  Event changed_;
  Event drained_;
  Duration making_time_{};  // of one cell, lately
  Instant look_at_memory_;  // not before
  bool memory_short_ = false;
  Instant destroy_again_;
  Duration destroy_pause_{};

  std::set<std::string, std::less<>> labelled_;  // templates with a gauge of their own
  Counter& taken_;
  Counter& tightened_;
  Counter& missed_;
  Counter& made_;
  Counter& failed_;
  Counter& drained_count_;
  Histogram& making_seconds_;
};

}  // namespace atl::control
