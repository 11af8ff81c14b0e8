#include "base/fault_point.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier)
// The linker's names for the two ends of the section; absent when there is no point.
[[gnu::weak, gnu::visibility("hidden")]] extern atl::fault::Point __start_atoll_fault_points[];
[[gnu::weak, gnu::visibility("hidden")]] extern atl::fault::Point __stop_atoll_fault_points[];
// NOLINTEND(bugprone-reserved-identifier)
}

namespace atl::fault {

Plan* plan = nullptr;

namespace {

std::uint32_t load(std::uint32_t& value) {
  return std::atomic_ref{value}.load(std::memory_order_acquire);
}

// True when it is this order's turn, which ends an order that is for a number of times.
bool is_due(Order& order) {
  if (const std::uint32_t skip = load(order.skip); skip > 0) {
    std::atomic_ref{order.skip}.store(skip - 1);
    return false;
  }
  const std::uint32_t acted = std::atomic_ref{order.acted}.fetch_add(1) + 1;
  if (load(order.action) != static_cast<std::uint32_t>(Action::kFail) ||
      acted == load(order.times)) {
    std::atomic_ref{order.point}.store(0);
  }
  return true;
}

Result<> act(const Order& order, const Point& point) {
  switch (static_cast<Action>(order.action)) {
    case Action::kKill:
      ::kill(::getpid(), SIGKILL);
      for (;;) {
        ::pause();  // nothing of ours happens after this point
      }
    case Action::kStop:
      ::kill(::getpid(), SIGSTOP);
      return {};
    case Action::kFail:
      return fail(errno_error(point.name, static_cast<int>(order.error_number)));
    case Action::kNone:
      return {};
  }
  return {};
}

}  // namespace

std::span<const Point> points() {
  return {__start_atoll_fault_points, __stop_atoll_fault_points};
}

Result<> check_plan(int plan_fd) {
  struct stat info{};
  if (::fstat(plan_fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != 0 ||
      (info.st_mode & (S_IWGRP | S_IWOTH)) != 0 || info.st_size != sizeof(Plan)) {
    return fail(Code::kInvalidArgument,
                "a fault plan is a file of root that nobody else can write, of the right size");
  }
  return {};
}

Result<> follow_plan(int plan_fd) {
  TRY_DO(check_plan(plan_fd));
  CHECK(points().size() <= kMaxPoints);
  void* const page = ::mmap(nullptr, sizeof(Plan), PROT_READ | PROT_WRITE, MAP_SHARED, plan_fd, 0);
  if (page == MAP_FAILED) {
    return fail_errno("mapping the fault plan");
  }
  plan = static_cast<Plan*>(page);
  return {};
}

Result<> pass(const Point& point) {
  const auto number = static_cast<std::uint32_t>(&point - points().data());
  std::atomic_ref{plan->passed[number]}.fetch_add(1);
  for (Order& order : plan->orders) {
    if (load(order.point) == number + 1 && is_due(order)) {
      return act(order, point);
    }
  }
  return {};
}

}  // namespace atl::fault
