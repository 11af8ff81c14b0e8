#include "base/fault_point.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/fd.h"

namespace atl::fault {
namespace {

Result<> step() {
  TRY_DO(ATOLL_FAULT_CHECK("test.step"));
  ATOLL_FAULT_POINT("test.after");
  return {};
}

std::uint32_t number_of(std::string_view name) {
  const auto found = std::ranges::find(points(), name, &Point::name);
  return static_cast<std::uint32_t>(found - points().begin());
}

// A plan in a file of ours, followed by this process until the end of the test.
class FaultPoint : public testing::Test {
 protected:
  void SetUp() override {
    if (points().empty()) {
      GTEST_SKIP() << "built without fault points";
    }
    char path[] = "/tmp/atoll-fault-plan-XXXXXX";
    file_ = Fd{::mkstemp(path)};
    ASSERT_TRUE(file_);
    ::unlink(path);
    ASSERT_EQ(::ftruncate(file_.get(), sizeof(Plan)), 0);
    if (::geteuid() != 0) {
      GTEST_SKIP() << "a plan belongs to root";
    }
    ASSERT_TRUE(follow_plan(file_.get()));
  }
  void TearDown() override {
    if (plan != nullptr) {
      ::munmap(plan, sizeof(Plan));
      plan = nullptr;
    }
  }
  void order(std::string_view name, Action action, std::uint32_t skip, std::uint32_t times = 1,
             int error_number = 0) {
    plan->orders[0] = {.point = number_of(name) + 1,
                       .skip = skip,
                       .times = times,
                       .action = static_cast<std::uint32_t>(action),
                       .error_number = static_cast<std::uint32_t>(error_number)};
  }

  Fd file_;
};

TEST_F(FaultPoint, CountsWhatIsPassed) {
  ASSERT_TRUE(step());
  ASSERT_TRUE(step());
  EXPECT_EQ(plan->passed[number_of("test.step")], 2U);
  EXPECT_EQ(plan->passed[number_of("test.after")], 2U);
}

TEST_F(FaultPoint, FailsWhenItIsDueAndThenNoMore) {
  order("test.step", Action::kFail, 1, 2, ENOSPC);
  EXPECT_TRUE(step());
  const auto failed = step();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().reason, "ENOSPC");
  EXPECT_FALSE(step());
  EXPECT_TRUE(step());
  EXPECT_EQ(plan->passed[number_of("test.after")], 2U);
}

TEST_F(FaultPoint, KillsTheProcessThatPasses) {
  order("test.after", Action::kKill, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    (void)step();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(plan->orders[0].acted, 1U);
  EXPECT_EQ(plan->orders[0].point, 0U) << "an order is carried out once";
  EXPECT_TRUE(step());
}

TEST_F(FaultPoint, APlanThatOthersMayWriteIsRefused) {
  ASSERT_EQ(::fchmod(file_.get(), 0666), 0);
  EXPECT_FALSE(check_plan(file_.get()));
  ASSERT_EQ(::fchmod(file_.get(), 0600), 0);
  EXPECT_TRUE(check_plan(file_.get()));
  ASSERT_EQ(::ftruncate(file_.get(), 10), 0);
  EXPECT_FALSE(check_plan(file_.get()));
}

TEST(FaultPointUnarmed, NothingHappensWithoutAPlan) {
  ASSERT_EQ(plan, nullptr);
  EXPECT_TRUE(step());
}

}  // namespace
}  // namespace atl::fault
