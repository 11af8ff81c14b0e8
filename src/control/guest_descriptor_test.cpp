// Guests that pass descriptors in every way they should not: none is closed by the loop, whose last
// close of a file can be made to last, and none stays.
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "control/fake_guest.h"
#include "control/fixture.h"
#include "control/guest_client.h"
#include "guest/wire_passing.h"

namespace atl::control {
namespace {

using guest::Kind;
using namespace std::chrono_literals;

std::uint64_t closed_so_far() {
  while (io::closing_elsewhere().waiting > 0) {
    std::this_thread::yield();
  }
  return io::closing_elsewhere().closed;
}

class GuestDescriptorTest : public testing::Test {
 protected:
  GuestDescriptorTest() {
    int ends[2];
    CHECK(::pipe(ends) == 0);
    reader_ = Fd{ends[0]};
    passed_ = Fd{ends[1]};
    guest_.script = [this](io::Stream& stream) { return answer(stream); };
    closed_before_ = closed_so_far();
  }

  static std::string file_frame() {
    return guest::encode_frame(
        Kind::kFile, guest::encode(guest::FileInfo{.name = "a", .path = "/a", .size = 7}));
  }

  // As the test says: descriptors before the answer, with it and behind it.
  Task<> answer(io::Stream& stream) {
    std::string buffer(1024, '\0');
    CO_TRY(const auto got, co_await stream.read(buffer));
    CO_TRY(const auto request, guest::decode_read_file(std::string_view{buffer}.substr(
                                   guest::kFrameHeaderBytes, got - guest::kFrameHeaderBytes)));
    asked_.push_back(request.length);
    if (!refusal_.empty() && guest::wants_passing(request.length)) {
      const Error error{Code::kResourceExhausted, "no", refusal_};
      co_return co_await stream.write(guest::encode_frame(Kind::kError, guest::encode(error)));
    }
    const std::string frame = file_frame();
    std::string_view left = frame;
    for (int i = 0; i < before_; ++i) {
      CO_TRY_DO(co_await stream.write_passing(left.substr(0, 1), passed_.get()));
      left.remove_prefix(1);
    }
    CO_TRY_DO(with_ ? co_await stream.write_passing(left, passed_.get())
                    : co_await stream.write(left));
    if (behind_ > 0) {
      CO_TRY_DO(co_await answered_.wait());
    }
    for (int i = 0; i < behind_; ++i) {
      CO_TRY_DO(co_await stream.write_passing("x", passed_.get()));
    }
    passed_.reset();
    sent_.set();
    (void)co_await stream.read(buffer);  // until the client leaves
    co_return ok();
  }

  enum class After : std::uint8_t { kNothing, kTake, kTakeAndWait };
  Task<> ask(After after, std::uint64_t length = guest::with_passing(UINT64_MAX)) {
    Scope scope{co_await current_context()};
    scope.spawn("guest", guest_.run());
    auto reader = co_await client_.read_file({.path = "/a", .length = length});
    Result<> outcome;
    if (!reader) {
      outcome = fail(std::move(reader).error());
    } else if (after != After::kNothing) {
      answered_.set();
      if (behind_ > 0) {
        CO_TRY_DO(co_await sent_.wait());
      }
      const io::ForeignFd file = (*reader)->take_file();
      took_ = static_cast<bool>(file);
      if (after == After::kTakeAndWait) {
        outcome = co_await with_deadline(60s, (*reader)->gone());
      }
    }
    if (reader) {
      reader->reset();
    }
    (void)co_await scope.cancel_and_join();
    co_return std::move(outcome);
  }
  Result<> run(Task<> task) { return reactor_.run_until_complete(std::move(task)); }

  // Nobody has what the guest passed any more; how many were closed elsewhere, sockets included.
  std::uint64_t closed() {
    passed_.reset();
    char byte = 0;
    EXPECT_EQ(::read(reader_.get(), &byte, 1), 0);
    return closed_so_far() - closed_before_;
  }

  TemporaryDirectory directory_;
  io::Reactor reactor_;
  FakeGuest guest_{reactor_, directory_.path() + "/guest.sock"};
  GuestClient client_{reactor_, guest_.path()};
  Fd reader_;
  Fd passed_;
  int before_ = 0;
  bool with_ = true;
  int behind_ = 0;
  Event answered_;
  Event sent_;
  std::string refusal_;
  std::vector<std::uint64_t> asked_;
  bool took_ = false;
  std::uint64_t closed_before_ = 0;
};

TEST_F(GuestDescriptorTest, OneThatIsTaken) {
  EXPECT_TRUE(run(ask(After::kTake)));
  EXPECT_TRUE(took_);
  EXPECT_EQ(closed(), 2U) << "it, and the socket";
}

TEST_F(GuestDescriptorTest, OneThatNobodyTakes) {
  EXPECT_TRUE(run(ask(After::kNothing)));
  EXPECT_EQ(closed(), 2U);
}

TEST_F(GuestDescriptorTest, MoreThanOneBreakTheProtocol) {
  before_ = 3;
  EXPECT_FALSE(run(ask(After::kTake)));
  EXPECT_FALSE(took_);
  EXPECT_EQ(closed(), 3U) << "the first two, and the socket with the others";
}

TEST_F(GuestDescriptorTest, SoDoesASecondWithTheAnswer) {
  before_ = 1;
  EXPECT_FALSE(run(ask(After::kTake)));
  EXPECT_EQ(closed(), 3U);
}

TEST_F(GuestDescriptorTest, ThoseThatLieUnreadAreClosedWithTheSocket) {
  behind_ = 20;
  EXPECT_TRUE(run(ask(After::kTake)));
  EXPECT_EQ(closed(), 2U);
}

TEST_F(GuestDescriptorTest, OneThatComesWhileTheFileIsReadIsTheEndOfIt) {
  behind_ = 1;
  EXPECT_TRUE(run(ask(After::kTakeAndWait)));
  EXPECT_TRUE(took_);
  EXPECT_EQ(closed(), 3U) << "it, the late one, and the socket";
}

TEST_F(GuestDescriptorTest, OneThatNobodyAskedFor) {
  EXPECT_FALSE(run(ask(After::kTake, UINT64_MAX)));
  EXPECT_FALSE(took_);
  closed();
}

TEST_F(GuestDescriptorTest, BytesInsteadOfOneAreAllRight) {
  with_ = false;
  EXPECT_TRUE(run(ask(After::kTake)));
  EXPECT_FALSE(took_);
  EXPECT_EQ(closed(), 1U) << "the socket";
}

TEST_F(GuestDescriptorTest, WhenOneGetsLostTheBytesAreAskedFor) {
  refusal_ = "descriptor_lost";
  with_ = false;
  EXPECT_TRUE(run(ask(After::kTake)));
  EXPECT_EQ(asked_, (std::vector<std::uint64_t>{guest::with_passing(UINT64_MAX), UINT64_MAX}));
  asked_.clear();
  refusal_ = "path_not_file";
  EXPECT_FALSE(run(ask(After::kTake)));
  EXPECT_EQ(asked_.size(), 1U) << "another refusal is one";
}

}  // namespace
}  // namespace atl::control
