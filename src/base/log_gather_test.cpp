// Lines of one thread together, in order, and none kept back that matters.
#include "base/log_gather.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <thread>

#include "base/fd.h"
#include "base/log.h"

namespace atl {
namespace {

class LogGatherTest : public testing::Test {
 protected:
  LogGatherTest() {
    log_configure(LogLevel::kInfo, LogFormat::kJson, "test");
    int ends[2];
    CHECK(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    reading_ = Fd{ends[0]};
    const Fd writing{ends[1]};
    before_ = Fd{::dup(STDERR_FILENO)};
    CHECK(::dup2(writing.get(), STDERR_FILENO) == STDERR_FILENO);
  }
  ~LogGatherTest() override {
    ::dup2(before_.get(), STDERR_FILENO);
    log_configure(LogLevel::kInfo, LogFormat::kText, "test");
  }

  // The messages that were written by now.
  std::string written() const {
    char buffer[65536];
    const ssize_t got = ::read(reading_.get(), buffer, sizeof buffer);
    std::string messages;
    std::string_view text{buffer, got > 0 ? static_cast<std::size_t>(got) : 0};
    constexpr std::string_view kMark = "\"message\":\"";
    for (auto at = text.find(kMark); at != std::string_view::npos; at = text.find(kMark)) {
      text.remove_prefix(at + kMark.size());
      messages += text.substr(0, text.find('"'));
    }
    return messages;
  }

  Fd reading_;
  Fd before_;
};

TEST_F(LogGatherTest, LinesWaitForTheFlush) {
  std::thread thread{[this] {
    log_gather();
    LOG_INFO("a");
    LOG_INFO("b");
    EXPECT_EQ(written(), "");
    log_flush();
    EXPECT_EQ(written(), "ab");
    log_flush();
    EXPECT_EQ(written(), "");
  }};
  thread.join();
}

TEST_F(LogGatherTest, AWarningIsWrittenAtOnceWithWhatCameBefore) {
  std::thread thread{[this] {
    log_gather();
    LOG_INFO("a");
    LOG_WARN("b");
    EXPECT_EQ(written(), "ab");
  }};
  thread.join();
}

TEST_F(LogGatherTest, ManyLinesAreNotKept) {
  std::thread thread{[this] {
    log_gather();
    const std::string long_text(20'000, 'x');
    LOG_INFO("a", {"text", long_text});
    EXPECT_EQ(written(), "a");
  }};
  thread.join();
}

// Other processes write to the same pipe, and must not come in the middle of a line.
TEST_F(LogGatherTest, EachWriteIsOfWholeLinesAndOnePieceForAPipe) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK | O_DIRECT), 0);  // keeps writes apart
  const Fd reading{ends[0]};
  const Fd writing{ends[1]};
  ASSERT_EQ(::dup2(writing.get(), STDERR_FILENO), STDERR_FILENO);
  std::thread thread{[] {
    log_gather();
    for (int i = 0; i < 200; ++i) {
      LOG_INFO("a line", {"number", i});
    }
  }};
  thread.join();
  char buffer[65536];
  std::size_t lines = 0;
  std::size_t writes = 0;
  for (ssize_t got = 0; (got = ::read(reading.get(), buffer, sizeof buffer)) > 0; ++writes) {
    EXPECT_LE(got, PIPE_BUF);
    EXPECT_EQ(buffer[got - 1], '\n');
    lines += static_cast<std::size_t>(std::count(buffer, buffer + got, '\n'));
  }
  EXPECT_EQ(lines, 200U);
  EXPECT_LT(writes, 50U);
}

using LogGatherDeathTest = LogGatherTest;
TEST_F(LogGatherDeathTest, ABrokenInvariantShowsWhatLedToIt) {
  EXPECT_DEATH(
      {
        log_gather();
        LOG_INFO("the last thing that was done");
        CHECK(before_.get() < 0);
      },
      "the last thing that was done(.|\n)*broken invariant");
}

TEST_F(LogGatherTest, TheEndOfTheThreadLosesNothing) {
  std::thread thread{[] {
    log_gather();
    LOG_INFO("a");
  }};
  thread.join();
  EXPECT_EQ(written(), "a");
}

TEST_F(LogGatherTest, OtherThreadsWriteEachLine) {
  std::thread thread{[this] {
    LOG_INFO("a");
    EXPECT_EQ(written(), "a");
  }};
  thread.join();
}

}  // namespace
}  // namespace atl
