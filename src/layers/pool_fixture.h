// What the tests of this room share: a pool in a temporary directory that is unmounted, detached
// and removed whatever the test did.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "layers/room.h"

namespace atl::layers {

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream{path} << text;
}

inline std::string read_text(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

// Loop devices that have a file of this directory behind them.
inline int loop_devices_of(const std::string& directory) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator{"/sys/block"}) {
    const std::string backing = read_text(entry.path().string() + "/loop/backing_file");
    count += backing.starts_with(directory + "/") ? 1 : 0;
  }
  return count;
}

inline bool is_mounted_below(const std::string& directory) {
  return read_text("/proc/self/mountinfo").find(directory + "/") != std::string::npos;
}

// Where a pool can lie, and so what it becomes.
enum class Place : std::uint8_t {
  kLoop,     // a directory on any file system: a loop file is made
  kDirect,   // a directory on btrfs, used as it is
  kReflink,  // a directory where files share blocks, btrfs switched off
  kPlain,    // any directory, btrfs switched off
};

class PoolFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) {
      GTEST_SKIP() << "needs root";
    }
    char name[] = "/tmp/atoll-layers-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
  }

  void TearDown() override {
    if (directory_.empty()) {
      return;
    }
    for (auto* pool : {pool_.get(), host_.get()}) {
      if (pool != nullptr) {
        (void)pool->close();
      }
    }
    ::umount2((directory_ + "/pool/mnt").c_str(), MNT_DETACH);
    ::umount2((directory_ + "/host/mnt").c_str(), MNT_DETACH);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  // A btrfs that stands for the host's own: the mount of another pool.
  void make_host() {
    auto opened = open_pool({.directory = directory_ + "/host", .loop_bytes = 512ULL << 20});
    ASSERT_TRUE(opened) << opened.error().message;
    host_ = *std::move(opened);
  }

  PoolOptions options() const {
    return {.directory = directory_ + (host_ ? "/host/mnt/pool" : "/pool"),
            .loop_bytes = 512ULL << 20,
            .allow_btrfs = place_ == Place::kLoop || place_ == Place::kDirect};
  }

  void open() {
    auto opened = open_pool(options());
    ASSERT_TRUE(opened) << opened.error().message;
    pool_ = *std::move(opened);
  }

  void reopen() {
    const auto closed = pool_->close();
    ASSERT_TRUE(closed) << closed.error().message;
    pool_.reset();
    open();
  }

  Place place_ = Place::kLoop;
  std::string directory_;
  std::unique_ptr<Pool> host_;
  std::unique_ptr<Pool> pool_;
};

// The same for each place a pool can lie in.
class PlacedPoolFixture : public PoolFixture, public ::testing::WithParamInterface<Place> {
 protected:
  void SetUp() override {
    place_ = GetParam();
    PoolFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    if (place_ == Place::kDirect || place_ == Place::kReflink) {
      make_host();
    }
    if (!HasFatalFailure()) {
      open();
    }
  }
};

inline std::string place_name(const ::testing::TestParamInfo<Place>& info) {
  constexpr const char* kNames[] = {"loop", "direct", "reflink", "plain"};
  return kNames[static_cast<int>(info.param)];
}

}  // namespace atl::layers
