// Descriptors of strangers: whatever they send, the loop closes none.
#include "io/foreign_fd.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "io/fd_passing.h"

namespace atl::io {
namespace {

std::uint64_t closed_so_far() {
  while (closing_elsewhere().waiting > 0) {
    std::this_thread::yield();
  }
  return closing_elsewhere().closed;
}

class ForeignFdTest : public testing::Test {
 protected:
  ForeignFdTest() {
    int fds[2];
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    ours_ = Fd{fds[0]};
    theirs_ = Fd{fds[1]};
    file_ = Fd{::memfd_create("file", MFD_CLOEXEC)};
    closed_before_ = closed_so_far();
  }

  // One byte, and this many descriptors: more than any of ours would send.
  int pass(std::size_t count) {
    const std::vector<int> fds(count, file_.get());
    std::vector<char> control(CMSG_SPACE(sizeof(int) * count));
    char byte = 'x';
    iovec part{&byte, 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * count);
    std::memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * count);
    return ::sendmsg(theirs_.get(), &message, MSG_NOSIGNAL) == 1 ? 0 : errno;
  }

  Result<std::size_t> receive(Fd& passed) {
    char buffer[16];
    return receive_part(ours_.get(), buffer, passed);
  }
  std::uint64_t closed() const { return closed_so_far() - closed_before_; }

  Fd ours_;
  Fd theirs_;
  Fd file_;
  std::uint64_t closed_before_ = 0;
};

TEST_F(ForeignFdTest, IsClosedElsewhere) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Fd reader{ends[0]};
  ForeignFd first{Fd{ends[1]}};
  ForeignFd second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is the question
  second = ForeignFd{};
  char byte = 0;
  EXPECT_EQ(::read(reader.get(), &byte, 1), 0) << "nobody has it any more";
  EXPECT_EQ(closed(), 1U);
  const Fd plain = std::move(ForeignFd{Fd{::dup(reader.get())}}.plain());
  EXPECT_TRUE(plain);
  EXPECT_EQ(closed(), 1U) << "what was taken out is its owner's";
}

TEST_F(ForeignFdTest, OneIsGiven) {
  ASSERT_EQ(pass(1), 0);
  Fd passed;
  const auto got = receive(passed);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, 1U);
  EXPECT_TRUE(passed);
  EXPECT_EQ(closed(), 0U);
}

TEST_F(ForeignFdTest, AsManyAsTheKernelCarriesAreAllClosedElsewhere) {
  ASSERT_EQ(pass(253), 0);
  Fd passed;
  const auto got = receive(passed);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().reason, "malformed");
  EXPECT_FALSE(passed);
  EXPECT_EQ(closed(), 253U);
}

TEST_F(ForeignFdTest, AnotherOneWhereThereIsOneIsClosedElsewhere) {
  ASSERT_EQ(pass(1), 0);
  ASSERT_EQ(pass(1), 0);
  Fd passed;
  ASSERT_TRUE(receive(passed));
  const int number = passed.get();
  EXPECT_FALSE(receive(passed));
  EXPECT_EQ(passed.get(), number);
  EXPECT_EQ(closed(), 1U);
}

TEST_F(ForeignFdTest, OneForWhichThereIsNoRoomIsAnError) {
  ASSERT_EQ(pass(1), 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Fd lowest{::dup(ours_.get())};
  // All numbers below this one are taken.
  const rlimit none_left{.rlim_cur = static_cast<rlim_t>(lowest.get()) + 1,
                         .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none_left), 0);
  Fd passed;
  const auto got = receive(passed);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().reason, kDescriptorLost);
  EXPECT_FALSE(passed);
}

TEST_F(ForeignFdTest, TheyCanBeRefused) {
  EXPECT_TRUE(may_descriptors_come(ours_.get()));
  if (!let_descriptors_come(ours_.get(), false)) {
    GTEST_SKIP() << "this kernel cannot";
  }
  EXPECT_FALSE(may_descriptors_come(ours_.get()));
  EXPECT_EQ(pass(1), EPERM);
  ASSERT_TRUE(let_descriptors_come(ours_.get(), true));
  EXPECT_EQ(pass(1), 0);
}

}  // namespace
}  // namespace atl::io
