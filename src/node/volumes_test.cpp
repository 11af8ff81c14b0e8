// Volumes on a real pool (without btrfs, so that it runs everywhere), and in cells.
#include "node/volumes.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "node/testing/node_fixture.h"

namespace atl::node {
namespace {

class NodeVolumesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-volumes-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    auto pool = layers::open_pool({.directory = directory_ + "/pool", .allow_btrfs = false});
    ASSERT_TRUE(pool) << pool.error().message;
    pool_ = *std::move(pool);
    volumes_ = std::make_unique<Volumes>(*pool_, locks_);
  }
  void TearDown() override {
    volumes_.reset();
    if (pool_) {
      EXPECT_TRUE(pool_->close());
    }
    std::filesystem::remove_all(directory_);
  }
  std::string file(const std::string& volume, const std::string& name) {
    return *volume_directory(*pool_, volume) + "/" + name;
  }
  void write(const std::string& volume, const std::string& text) {
    std::ofstream{file(volume, "file")} << text;
  }
  std::string read(const std::string& volume) {
    std::string text;
    std::ifstream{file(volume, "file")} >> text;
    return text;
  }

  std::string directory_;
  std::unique_ptr<layers::Pool> pool_;
  IdLocks locks_;
  std::unique_ptr<Volumes> volumes_;
};

TEST_F(NodeVolumesTest, AVolumeHasAnOwnerAndIsForEverybody) {
  const auto made = volumes_->create({.volume = "vol-a", .uid = 12, .gid = 34});
  ASSERT_TRUE(made) << made.error().message;
  struct stat root{};
  ASSERT_EQ(::stat(volume_directory(*pool_, "vol-a")->c_str(), &root), 0);
  EXPECT_EQ(root.st_uid, 12U);
  EXPECT_EQ(root.st_gid, 34U);
  EXPECT_EQ(root.st_mode & 07777, 0777U);
  EXPECT_EQ(volumes_->create({.volume = "vol-a"}).error().code, Code::kAlreadyExists);
  EXPECT_EQ(*volumes_->list(), std::vector<std::string>{"vol-a"});
  EXPECT_TRUE(volumes_->remove("vol-a"));
  EXPECT_TRUE(volumes_->remove("vol-a"));
  EXPECT_EQ(volume_directory(*pool_, "vol-a").error().reason, "volume_not_found");
  EXPECT_TRUE(volumes_->list()->empty());
}

TEST_F(NodeVolumesTest, DisksOfCellsAreNoVolumes) {
  ASSERT_TRUE(pool_->create_upper("rs-a", 0));
  EXPECT_TRUE(volumes_->list()->empty());
  EXPECT_FALSE(volume_directory(*pool_, "rs-a"));
}

// Each of the threads does to one volume and one snapshot what the others do.
TEST_F(NodeVolumesTest, OneOperationAtATime) {
  ASSERT_TRUE(volumes_->create({.volume = "vol-a"}));
  write("vol-a", "content");
  std::atomic<int> made = 0;
  std::atomic<int> taken = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        made += volumes_->create({.volume = "vol-b"}) ? 1 : 0;
        taken += volumes_->snapshot({.volume = "vol-a", .snapshot = "vsnap-1"}) ? 1 : 0;
        EXPECT_TRUE(volumes_->restore({.volume = "vol-a", .snapshot = "vsnap-1"}));
      });
    }
  }
  EXPECT_EQ(made, 1);
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(read("vol-a"), "content");
}

TEST(IdLocksTest, ReadersTogetherTheOthersAlone) {
  IdLocks locks;
  std::atomic<bool> alone = false;
  std::jthread writer;
  {
    const IdLocks::Guard first = locks.lock_shared("a");
    const IdLocks::Guard second = locks.lock_shared("a");
    const IdLocks::Guard other = locks.lock("b");
    writer = std::jthread{[&] {
      const IdLocks::Guard guard = locks.lock("a");
      alone = true;
    }};
    EXPECT_FALSE(alone);
  }
  writer.join();
  EXPECT_TRUE(alone);
  const IdLocks::Guard again = locks.lock("a");
}

TEST_F(NodeVolumesTest, MomentsAndWhatBeginsThere) {
  ASSERT_TRUE(volumes_->create({.volume = "vol-a"}));
  write("vol-a", "old");
  ASSERT_TRUE(volumes_->snapshot({.volume = "vol-a", .snapshot = "vsnap-1"}));
  write("vol-a", "new");
  ASSERT_TRUE(volumes_->create({.volume = "vol-b", .snapshot = "vsnap-1"}));
  EXPECT_EQ(read("vol-b"), "old");
  EXPECT_EQ(read("vol-a"), "new");
  ASSERT_TRUE(volumes_->restore({.volume = "vol-a", .snapshot = "vsnap-1"}));
  EXPECT_EQ(read("vol-a"), "old");
  EXPECT_EQ(volumes_->create({.volume = "vol-c", .snapshot = "vsnap-x"}).error().code,
            Code::kNotFound);
  EXPECT_FALSE(volumes_->snapshot({.volume = "vol-x", .snapshot = "vsnap-2"}));
  EXPECT_GT(volumes_->usage("vol-a")->disk_bytes, 0U);
}

using CellVolumesTest = testing::NodeFixture;

TEST_F(CellVolumesTest, ACellMountsWhatIsThere) {
  ASSERT_TRUE(pool_.create_upper("vol-a", 0));
  CreateRequest wanted = request("a");
  wanted.mounts = {{"vol-a", "/data", true}};
  ASSERT_TRUE(cells_->create(wanted));
  const auto spec = runtime_.spec("a");
  ASSERT_EQ(spec.mounts.size(), 1U);
  EXPECT_EQ(spec.mounts[0].source_dir, "/uppers/vol-a/upper");
  EXPECT_EQ(spec.mounts[0].target, "/data");
  EXPECT_TRUE(spec.mounts[0].read_only);
  EXPECT_TRUE(cells_->detach({"a", {"vol-a", "/data"}}));
  EXPECT_FALSE(cells_->detach({"a", {"vol-a", "/data"}}));
  EXPECT_FALSE(cells_->detach({"b", {"vol-a", "/data"}}));
  CreateRequest missing = request("b");
  missing.mounts = {{"vol-b", "/data"}};
  EXPECT_EQ(cells_->create(missing).error().reason, "volume_not_found");
  EXPECT_FALSE(has_record("b"));
}

TEST_F(CellVolumesTest, APauseWaitsForTheVolumesToo) {
  ASSERT_TRUE(pool_.create_upper("vol-a", 0));
  ASSERT_TRUE(pool_.create_upper("vol-b", 0));
  CreateRequest wanted = request("a");
  wanted.mounts = {{"vol-a", "/a"}, {"vol-b", "/b", true}};
  ASSERT_TRUE(cells_->create(wanted));
  crash();  // the next node knows them from the record
  start();
  const int before = pool_.syncs();
  ASSERT_TRUE(cells_->freeze("a"));
  EXPECT_EQ(pool_.syncs(), before + 2) << "its own disk and what it can write to";
  ASSERT_TRUE(cells_->thaw("a"));
  ASSERT_TRUE(pool_.remove_upper("vol-a"));
  EXPECT_TRUE(cells_->freeze("a")) << "one that was deleted is nobody's";
}

// What it wrote from then on would be lost, and what it read would be old.
TEST_F(CellVolumesTest, ADiskIsNotExchangedUnderACell) {
  for (const bool read_only : {false, true}) {
    ASSERT_TRUE(pool_.create_upper("vol-a", 0));
    Volumes volumes{pool_, cells_->locks()};
    ASSERT_TRUE(volumes.snapshot({.volume = "vol-a", .snapshot = "vsnap-1"}));
    CreateRequest wanted = request("a");
    wanted.mounts = {{"vol-a", "/a", read_only}};
    ASSERT_TRUE(cells_->create(wanted));
    crash();  // the next node knows it from the record
    start();
    const VolumeRequest back{.volume = "vol-a", .snapshot = "vsnap-1"};
    const auto refused = cells_->restore_volume(back);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().reason, "volume_mounted");
    ASSERT_TRUE(cells_->destroy({.id = "a"}));
    EXPECT_TRUE(cells_->restore_volume(back));
    EXPECT_TRUE(cells_->create(wanted));
    ASSERT_TRUE(cells_->destroy({.id = "a"}));
    ASSERT_TRUE(pool_.remove_snapshot("vsnap-1"));
    ASSERT_TRUE(pool_.remove_upper("vol-a"));
  }
}

TEST_F(CellVolumesTest, ACellForFilesDoesNotOutliveAStop) {
  ASSERT_TRUE(pool_.create_upper("vol-a", 0));
  CreateRequest wanted = request("files-a");
  wanted.mounts = {{"vol-a", "/volume"}};
  wanted.mount_is_root = true;
  ASSERT_TRUE(cells_->create(wanted));
  EXPECT_TRUE(runtime_.spec("files-a").mount_is_root);
  ASSERT_TRUE(cells_->stop());
  EXPECT_FALSE(pool_.has_upper("files-a"));
  EXPECT_TRUE(pool_.has_upper("vol-a"));
}

TEST(NodeVolumeProtocol, RequestsSurviveTheTrip) {
  const VolumeRequest wanted{"vol-a", "vsnap-1", 1ULL << 30, 5, 6};
  for (const RequestKind kind : {RequestKind::kCreateVolume, RequestKind::kSnapshotVolume,
                                 RequestKind::kRestoreVolume, RequestKind::kRemoveVolume}) {
    const auto got = decode_request(encode_volume(kind, wanted));
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->kind, kind);
    EXPECT_EQ(got->volume.volume, "vol-a");
    EXPECT_EQ(got->volume.snapshot, "vsnap-1");
    EXPECT_EQ(got->volume.disk_bytes, 1ULL << 30);
    EXPECT_EQ(got->volume.uid, 5U);
    EXPECT_EQ(got->volume.gid, 6U);
  }
  const auto detach = decode_request(encode(DetachRequest{"rs-a", {"vol-a", "/data", true}}));
  ASSERT_TRUE(detach);
  EXPECT_EQ(detach->detach.id, "rs-a");
  EXPECT_EQ(detach->detach.mount.path, "/data");
  CreateRequest create{.id = "rs-a", .hostname = "a", .layers = {"base"}};
  create.mounts = {{"vol-a", "/data", true}, {"vol-b", "/other"}};
  const auto created = decode_request(encode(create));
  ASSERT_TRUE(created) << created.error().message;
  ASSERT_EQ(created->create.mounts.size(), 2U);
  EXPECT_TRUE(created->create.mounts[0].read_only);
  EXPECT_FALSE(created->create.mounts[1].read_only);
}

TEST(NodeVolumeProtocol, RefusesWhatCouldHurt) {
  for (const char* path : {"", "/", "//", "data", "/proc", "/proc/self", "/sys/fs", "/dev", "/a/..",
                           "/a/./b", "/a//b", "/a/"}) {
    EXPECT_FALSE(check_mounts({{"vol-a", path}})) << path;
  }
  EXPECT_FALSE(check_mounts({{"vol-a", "/" + std::string(256, 'x')}}));
  EXPECT_FALSE(check_mounts({{"vol-a", "/a"}, {"vol-b", "/a/b"}}));
  EXPECT_FALSE(check_mounts({{"vol-a", "/a/b"}, {"vol-b", "/a"}}));
  EXPECT_TRUE(check_mounts({{"vol-a", "/a"}, {"vol-b", "/ab"}, {"vol-a", "/process"}}));
  for (const char* id : {"vol-", "rs-a", "../vol-a", "vol-A", ""}) {
    EXPECT_FALSE(check_mounts({{id, "/data"}})) << id;
    EXPECT_FALSE(decode_request(encode_volume(RequestKind::kRemoveVolume, {.volume = id}))) << id;
  }
  EXPECT_FALSE(check_mounts(std::vector<Mount>(kMaxMountsPerCell + 1, Mount{"vol-a", "/a"})));
  EXPECT_FALSE(
      decode_request(encode_volume(RequestKind::kCreateVolume, {.volume = "vol-a", .uid = 65536})));
  EXPECT_FALSE(decode_request(encode_volume(RequestKind::kRestoreVolume, {.volume = "vol-a"})));
  // What is about cells never touches a volume.
  EXPECT_FALSE(decode_request(encode(DestroyRequest{"vol-a", false})));
  EXPECT_FALSE(
      decode_request(encode(CreateRequest{.id = "vol-a", .hostname = "a", .layers = {"base"}})));
  CreateRequest root{.id = "rs-a", .hostname = "a", .layers = {"base"}};
  root.mounts = {{"vol-a", "/volume"}};
  root.mount_is_root = true;
  EXPECT_FALSE(decode_request(encode(root))) << "only a cell for files";
}

}  // namespace
}  // namespace atl::node
