// Images from guests that lie: only a sealed memory file of a bearable size is ever held.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/fake_guest.h"
#include "control/fixture.h"
#include "control/guest_client.h"
#include "control/limits.h"

namespace atl::control {
namespace {

using guest::Kind;

constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Fd memory_file(off_t bytes, int seals) {
  Fd file{::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  EXPECT_EQ(::ftruncate(file.get(), bytes), 0);
  EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

class GuestImages : public testing::Test {
 protected:
  Result<CapturedProcess> capture(std::string description, int descriptor) {
    guest_.script = [description, descriptor](io::Stream& stream) {
      return answer(stream, description, descriptor);
    };
    return reactor_.run_until_complete(beside());
  }
  static Task<> answer(io::Stream& stream, std::string description, int descriptor) {
    std::string buffer(1024, '\0');
    CO_TRY_DO(co_await stream.read(buffer));
    const std::string frame = guest::encode_frame(Kind::kImage, description);
    if (descriptor < 0) {
      co_return co_await stream.write(frame);
    }
    co_return co_await stream.write_passing(frame, descriptor);
  }
  Task<CapturedProcess> beside() {
    Scope scope{co_await current_context()};
    scope.spawn("guest", guest_.run());
    auto result =
        co_await client_.capture({.process_id = "p", .pid = 5, .channel = 3, .max_bytes = 1 << 20});
    (void)co_await scope.cancel_and_join();
    co_return std::move(result);
  }

  TemporaryDirectory directory_;
  io::Reactor reactor_;
  FakeGuest guest_{reactor_, directory_.path() + "/guest.sock"};
  GuestClient client_{reactor_, guest_.path()};
};

TEST_F(GuestImages, ASealedFileArrives) {
  const Fd file = memory_file(8192, kSeals);
  const auto captured = capture("anything at all", file.get());
  ASSERT_TRUE(captured) << captured.error().message;
  EXPECT_EQ(captured->description, "anything at all");
  EXPECT_EQ(captured->memory_bytes, 8192U);
  EXPECT_EQ(::fcntl(captured->memory.get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(GuestImages, WhatCouldChangeIsRefused) {
  for (const int seals : {0, F_SEAL_WRITE, kSeals & ~F_SEAL_WRITE, kSeals & ~F_SEAL_SHRINK,
                          kSeals & ~F_SEAL_GROW, kSeals & ~F_SEAL_SEAL}) {
    const Fd file = memory_file(4096, seals);
    const auto captured = capture("d", file.get());
    ASSERT_FALSE(captured);
    EXPECT_EQ(captured.error().reason, "guest_protocol");
  }
}

TEST_F(GuestImages, OtherDescriptorsAndNoneAreRefused) {
  EXPECT_FALSE(capture("d", -1));
  const Fd null{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  EXPECT_FALSE(capture("d", null.get()));
  const Fd directory{::open("/", O_RDONLY | O_CLOEXEC)};
  EXPECT_FALSE(capture("d", directory.get()));
  const Fd plain{::open(directory_.path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
  EXPECT_FALSE(capture("d", plain.get()));
}

TEST_F(GuestImages, SizesAreBounded) {
  const Fd large = memory_file(static_cast<off_t>(kMaxCopyBytes) + 4096, kSeals);
  EXPECT_FALSE(capture("d", large.get()));
  const Fd file = memory_file(4096, kSeals);
  EXPECT_FALSE(capture(std::string(guest::kMaxDescriptionBytes + 1, 'x'), file.get()));
}

}  // namespace
}  // namespace atl::control
