// What a create does before its turn has come: nothing that others would have to wait for.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/strings.h"
#include "node/testing/node_fixture.h"

namespace atl::node {
namespace {

constexpr std::chrono::seconds kPatience{60};

class CellsTurnsTest : public testing::NodeFixture {
 protected:
  // Returns when the thread waits for something.
  static bool wait_until_asleep(const std::atomic<long>& thread) {
    const auto give_up_at = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < give_up_at) {
      std::ifstream file{concat("/proc/self/task/", thread.load(), "/stat")};
      std::string stat;
      std::getline(file, stat);
      const auto name_end = stat.rfind(") ");
      if (name_end != std::string::npos && stat[name_end + 2] == 'S') {
        return true;
      }
      std::this_thread::yield();
    }
    return false;
  }
};

// A layer that went meanwhile was nobody's to use.
TEST_F(CellsTurnsTest, ACreateLooksForItsLayersWhenItIsItsTurn) {
  const std::size_t places = creates_at_once();
  std::vector<std::jthread> running;
  std::vector<std::atomic<long>> threads(places + 1);
  for (std::size_t i = 0; i < places; ++i) {
    runtime_.hold_create(concat("held", i));
    running.emplace_back([&, i] {
      threads[i] = ::syscall(SYS_gettid);
      EXPECT_TRUE(cells_->create(request(concat("held", i))));
    });
    EXPECT_TRUE(wait_until_asleep(threads[i]));
  }
  ASSERT_TRUE(pool_.add_layer("other", [](const std::string&) { return Result<>{}; }));
  Result<CellInfo> late;
  running.emplace_back([&] {
    threads[places] = ::syscall(SYS_gettid);
    late = cells_->create({.id = "late", .hostname = "box", .layers = {"other"}});
  });
  EXPECT_TRUE(wait_until_asleep(threads[places]));
  EXPECT_TRUE(pool_.remove_layer("other"));
  for (std::size_t i = 0; i < places; ++i) {
    runtime_.release_create(concat("held", i));
  }
  running.clear();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().reason, "layer_not_found");
  EXPECT_FALSE(has_record("late"));
}

}  // namespace
}  // namespace atl::node
