// Named places where a test can end this process, stop it, or make a step fail.
//
//   ATOLL_FAULT_POINT("control.pause.frozen");           can kill or stop the process here
//   TRY_DO(ATOLL_FAULT_CHECK("layers.sync"));            can also fail, with an errno
//
// They are in every build, because the binary that ships is the one that must survive: a point that
// is not armed costs a load and a branch that is never taken. Only the root user who starts
// `atoll serve` can arm one, with --fault-plan: the supervisor opens that file and its children
// share its page, in which the test writes which point does what, and reads how often each was
// passed. No request, no environment and no sandbox reaches it. -DATOLL_FAULT_POINTS=OFF leaves
// nothing of them.
//
// The points list themselves: each is an object in one section of the executable, and its number is
// its place there, the same in all processes of one build. So they stand in .cpp files only.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"

namespace atl::fault {

struct Point {
  const char* name;
};

enum class Action : std::uint32_t { kNone, kKill, kStop, kFail };

inline constexpr std::size_t kMaxPoints = 1008;
inline constexpr std::size_t kMaxOrders = 4;

// What a test wants to happen. `point` is written last and makes it valid.
struct Order {
  std::uint32_t point;         // number + 1; 0: none
  std::uint32_t skip;          // so often nothing happens
  std::uint32_t times;         // so often it happens then; kFail only, 0: for ever
  std::uint32_t action;        // Action
  std::uint32_t error_number;  // of kFail
  std::uint32_t acted;         // so often it has happened
};

// The shared page, as the file holds it. tests/harness/faults.py writes the same.
struct Plan {
  Order orders[kMaxOrders];
  std::uint32_t passed[kMaxPoints];
};

// All points of this executable, by number.
std::span<const Point> points();

// Nobody but root may write it.
Result<> check_plan(int plan_fd);
// From now on the orders in this file count. Once, before threads are started.
Result<> follow_plan(int plan_fd);

// Null: nothing is ever armed in this process.
extern Plan* plan;

Result<> pass(const Point& point);

}  // namespace atl::fault

#ifndef ATOLL_FAULT_POINTS
#define ATOLL_FAULT_POINTS 1
#endif
#if ATOLL_FAULT_POINTS
#define ATOLL_FAULT_CHECK(point_name)                                                             \
  ([]() -> ::atl::Result<> {                                                                      \
    [[gnu::section("atoll_fault_points"), gnu::used]] static constinit ::atl::fault::Point point{ \
        point_name};                                                                              \
    return ::atl::fault::plan == nullptr ? ::atl::Result<>{} : ::atl::fault::pass(point);         \
  }())
#else
#define ATOLL_FAULT_CHECK(point_name) (::atl::Result<>{})
#endif
#define ATOLL_FAULT_POINT(point_name) ((void)ATOLL_FAULT_CHECK(point_name))
