// What a sandbox and its team may use: connections, and bytes in both directions.
//
// Each sandbox has one, each team has one that its sandboxes share. A connection holds a Place in
// both for as long as it lives, and asks a Meter before it moves bytes.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "egress/boundary.h"
#include "proxy/rate.h"

namespace atl::proxy {

struct Allowance {
  std::uint32_t connections = 0;
  std::uint32_t most_connections = 0;  // 0: no limit
  TokenBucket out;
  TokenBucket in;

  void set_limits(const egress::TrafficLimits& limits);
  bool is_full() const { return most_connections != 0 && connections >= most_connections; }
};
// Shared by the sessions of a team and the connections they had when they ended.
using AllowancePtr = std::shared_ptr<Allowance>;

// The allowance of each team that has a sandbox here.
class Teams {
 public:
  AllowancePtr find(const std::string& team_id);

 private:
  std::map<std::string, std::weak_ptr<Allowance>> teams_;
};

// One connection counted.
class Place {
 public:
  Place(AllowancePtr sandbox, AllowancePtr team) : sandbox_(sandbox), team_(team) {
    ++sandbox_->connections;
    ++team_->connections;
  }
  ~Place() {
    --sandbox_->connections;
    --team_->connections;
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  AllowancePtr sandbox_;
  AllowancePtr team_;
};

enum class Direction : std::uint8_t { kOut, kIn };

// Counts and slows the bytes of one connection.
class Meter {
 public:
  Meter(Loop& loop, AllowancePtr sandbox, AllowancePtr team, egress::FlowRecord& record)
      : loop_(loop),
        sandbox_(std::move(sandbox)),
        team_(std::move(team)),
        record_(record),
        active_at_(loop.now()) {}

  // How much may move now, at most `most`; 0: wait first.
  std::size_t allowed(Direction direction, std::size_t most);
  Duration wait_time(Direction direction);
  void moved(Direction direction, std::size_t bytes);
  Instant active_at() const { return active_at_; }

 private:
  Loop& loop_;
  AllowancePtr sandbox_;
  AllowancePtr team_;
  egress::FlowRecord& record_;
  Instant active_at_;
};

}  // namespace atl::proxy
