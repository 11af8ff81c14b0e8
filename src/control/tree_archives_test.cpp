// Trees that hostile guests and slow clients send: each step has an end.
#include "control/tree_archives.h"

#include "control/archive_feed.h"
#include "control/fake_guest.h"
#include "control/fixture.h"
#include "control/guest_trees.h"

namespace atl::control {
namespace {

using guest::Kind;

class TreeArchivesTest : public testing::Test {
 protected:
  // A guest that sends a file of some bytes, and then pieces without any.
  TreeArchivesTest() {
    guest_.script = [](io::Stream& stream) { return send_nothing(stream); };
  }
  static Task<> send_nothing(io::Stream& stream) {
    std::string buffer(1024, '\0');
    CO_TRY_DO(co_await stream.read(buffer));
    std::string bytes = guest::encode_frame(
        Kind::kTreeEntry,
        guest::encode(guest::TreeEntry{.path = "f", .type = guest::FileType::kFile, .size = 10}));
    for (int i = 0; i < 1000; ++i) {
      bytes += guest::encode_frame(Kind::kData, "");
    }
    co_return co_await stream.write(bytes);
  }
  template <class T>
  Task<T> beside(Task<T> task) {
    Scope scope{co_await current_context()};
    scope.spawn("guest", guest_.run());
    auto result = co_await std::move(task);
    (void)co_await scope.cancel_and_join();
    co_return std::move(result);
  }
  Task<std::string> download(oci::ArchiveFormat format) {
    TreeArchives archives{pool_};
    CO_TRY(const auto download, co_await archives.download({reactor_, guest_.path()},
                                                           {.path = "/a", .user = ""}, format));
    co_return co_await download->next();
  }

  TemporaryDirectory directory_;
  io::Reactor reactor_;
  io::OffloadPool pool_{"archives", 1, 16};
  FakeGuest guest_{reactor_, directory_.path() + "/guest.sock"};
};

TEST_F(TreeArchivesTest, PiecesWithoutBytesAreRefused) {
  for (const auto format : {oci::ArchiveFormat::kTar, oci::ArchiveFormat::kTarGzip}) {
    const auto got = reactor_.run_until_complete(beside(download(format)));
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Code::kDataLoss) << got.error().message;
  }
}

// As many devices as somebody asks for, then the end.
class Devices final : public oci::TreeSource {
 public:
  explicit Devices(int count) : left_(count) {}
  Result<std::optional<oci::ArchiveEntry>> next() override {
    if (left_-- == 0) {
      return std::optional<oci::ArchiveEntry>{};
    }
    return std::optional{oci::ArchiveEntry{.path = "d", .type = oci::EntryType::kSkipped}};
  }
  Result<std::size_t> read(std::span<char>) override { return std::size_t{0}; }

 private:
  int left_;
};

TEST(TreeBatches, WhatIsSkippedCanBePausedToo) {
  Devices devices{3};
  const TreeChanges changes;
  TreeBatches batches{devices, changes};
  for (int i = 0; i < 3; ++i) {
    const auto frames = batches.next([] { return true; });
    ASSERT_TRUE(frames);
    EXPECT_TRUE(frames->empty());
    EXPECT_FALSE(batches.ended());
  }
  const auto frames = batches.next([] { return true; });
  ASSERT_TRUE(frames);
  EXPECT_TRUE(frames->empty());
  EXPECT_TRUE(batches.ended());
}

}  // namespace
}  // namespace atl::control
