// Dumps are there whole or not at all, and are used once.
#include "node/dumps.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace atl::node {
namespace {

namespace fs = std::filesystem;

class DumpsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-dumps-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    dumps_ = Dumps{directory_};
  }
  void TearDown() override { fs::remove_all(directory_); }
  void make(const std::string& name) {
    const auto path = dumps_.begin(name);
    ASSERT_TRUE(path) << path.error().message;
    std::ofstream{*path + "/pages"} << std::string(8192, 'x');
    EXPECT_FALSE(dumps_.has(name)) << "not before it is whole";
    ASSERT_TRUE(dumps_.finish(name));
  }

  std::string directory_;
  Dumps dumps_;
};

TEST_F(DumpsTest, WholeOrNotAtAll) {
  make("cell-a");
  EXPECT_TRUE(dumps_.has("cell-a"));
  EXPECT_GE(dumps_.size("cell-a"), 8192U);
  ASSERT_TRUE(dumps_.begin("cell-b"));
  ASSERT_TRUE(dumps_.collect());
  EXPECT_EQ(*dumps_.list(), std::vector<std::string>{"cell-a"});
}

TEST_F(DumpsTest, UsedOnce) {
  make("cell-a");
  ASSERT_TRUE(dumps_.use_up("cell-a"));
  EXPECT_FALSE(dumps_.has("cell-a"));
  EXPECT_FALSE(dumps_.use_up("cell-a"));
  ASSERT_TRUE(dumps_.remove("cell-a"));
  EXPECT_TRUE(dumps_.list()->empty());
  EXPECT_TRUE(dumps_.remove("cell-a")) << "idempotent";
}

TEST_F(DumpsTest, ACopyOutlivesItsOrigin) {
  make("cell-a");
  ASSERT_TRUE(dumps_.copy("cell-a", "snapshot-s"));
  ASSERT_TRUE(dumps_.remove("cell-a"));
  EXPECT_GE(dumps_.size("snapshot-s"), 8192U);
  EXPECT_FALSE(dumps_.copy("cell-a", "snapshot-t"));
  EXPECT_FALSE(dumps_.has("snapshot-t"));
}

TEST_F(DumpsTest, WithoutADirectoryThereAreNone) {
  const Dumps none;
  EXPECT_FALSE(none.begin("cell-a"));
  EXPECT_FALSE(none.has("cell-a"));
  EXPECT_TRUE(none.remove("cell-a"));
  EXPECT_TRUE(none.collect());
}

}  // namespace
}  // namespace atl::node
