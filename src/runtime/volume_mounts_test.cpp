// Volumes in cells: where they may be, what they carry, and how they go again.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/cell_fixture.h"

namespace atl::runtime::testing {
namespace {

namespace fs = std::filesystem;

class VolumeMountsTest : public CellFixture {
 protected:
  void SetUp() override {
    CellFixture::SetUp();
    volume_ = directory() + "/volume";
    fs::create_directories(volume_);
    ASSERT_EQ(::chmod(volume_.c_str(), 0777), 0);
    std::ofstream{volume_ + "/mark"} << "volume";
  }
  CellSpec spec_with(const std::string& id, const std::string& target, bool read_only = false) {
    CellSpec spec = make_spec(id);
    spec.mounts = {{volume_, target, read_only}};
    return spec;
  }
  // In the tree of the cell to be, as an earlier run of it could have left it.
  static void link(const CellSpec& spec, const std::string& name, const std::string& target) {
    fs::create_symlink(target, spec.upper_dir + "/upper/" + name);
  }

  std::string volume_;
};

TEST_F(VolumeMountsTest, AVolumeIsWhereItWasAskedFor) {
  const auto cell = create(spec_with("a", "/deep/er/data"));
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_EQ(ask("a", "cat /deep/er/data/mark"), "volume");
  EXPECT_EQ(ask("a", "open_write /deep/er/data/mark"), "ok");
  const std::string mounts = ask("a", "cat /proc/self/mounts");
  const auto line = mounts.substr(mounts.find(" /deep/er/data "));
  EXPECT_NE(line.find("nosuid"), std::string::npos) << line;
  EXPECT_NE(line.find("nodev"), std::string::npos) << line;
}

TEST_F(VolumeMountsTest, AReaderOnlyReads) {
  ASSERT_TRUE(create(spec_with("a", "/data", true)));
  EXPECT_EQ(ask("a", "cat /data/mark"), "volume");
  EXPECT_EQ(ask("a", "open_write /data/mark"), "EROFS");
}

TEST_F(VolumeMountsTest, LinksStayInTheCellAndOffTheKernelsPlaces) {
  for (const char* target : {"/proc", "/proc/self", "/dev/shm", "/sys", "/", "..", "/nowhere",
                             "/proc/self/root", "loop"}) {
    CellSpec spec = spec_with("a", "/loop");
    link(spec, "loop", target);
    const auto cell = create(spec);
    EXPECT_FALSE(cell) << target;
    fs::remove_all(spec.upper_dir);
  }
  CellSpec good = spec_with("b", "/link/deep");
  fs::create_directories(good.upper_dir + "/upper/real");
  link(good, "link", "/real");
  const auto cell = create(good);
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_EQ(ask("b", "cat /real/deep/mark"), "volume");
}

TEST_F(VolumeMountsTest, WhatIsDetachedIsTheVolumeAndNothingElse) {
  const CellSpec spec = spec_with("a", "/place/data");
  const auto cell = create(spec);
  ASSERT_TRUE(cell) << cell.error().message;
  VolumeMount elsewhere = spec.mounts[0];
  elsewhere.target = "/proc";
  EXPECT_FALSE(runtime().detach(cell->record, elsewhere));
  EXPECT_EQ(ask("a", "cat /place/data/mark"), "volume");
  const auto detached = runtime().detach(cell->record, spec.mounts[0]);
  ASSERT_TRUE(detached) << detached.error().message;
  EXPECT_EQ(ask("a", "open /place/data/mark"), "ENOENT");
  EXPECT_FALSE(runtime().detach(cell->record, spec.mounts[0]));
  EXPECT_EQ(ask("a", "open /proc/self/stat"), "ok");
}

}  // namespace
}  // namespace atl::runtime::testing
