// Bodies that are files: the same bytes as if they were written, and never half an answer that
// looks whole.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <csignal>
#include <optional>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "http/test_server.h"
#include "io/file_sender.h"

namespace atl::http {
namespace {

class ServerFileTest : public testing::Test {
 protected:
  ServerFileTest() {
    ::signal(SIGPIPE, SIG_IGN);
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      bytes_[i] = static_cast<char>(i * 7 + i / 4096);
    }
  }

  // In memory, opened for reading.
  Fd file() const {
    const Fd written{::memfd_create("body", MFD_CLOEXEC)};
    CHECK(written && write_all(written.get(), bytes_));
    return Fd{::open(concat("/proc/self/fd/", written.get()).c_str(), O_RDONLY | O_CLOEXEC)};
  }

  // Announces a length and sends a slice.
  Task<> answer(Exchange& exchange, std::uint64_t announced, io::FileSender::Piece piece) {
    if (reserves_) {
      sends_files_ = exchange.reserve_file("sandbox");
    }
    CO_TRY_DO(co_await exchange.start(200, {}, announced));
    outcome_ = co_await exchange.send_file({.file = std::move(piece.file),
                                            .offset = piece.offset,
                                            .length = piece.length,
                                            .sent = &counted_bytes_});
    CO_TRY_DO(Result<>{*outcome_});
    co_return co_await exchange.finish();
  }

  // Two requests on one connection: what comes of their answers.
  std::string ask_twice(std::uint64_t announced, std::uint64_t offset, std::uint64_t length) {
    TestServer server{[this, announced, offset, length](Exchange& exchange) {
      return answer(exchange, announced,
                    {.file = io::ForeignFd{file()}, .offset = offset, .length = length});
    }};
    auto got = server.run(exchange_raw(
        server,
        "GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
    sent_bytes_ = server.metrics().counter("atoll_http_sent_bytes_total", "").value();
    return got ? *std::move(got) : "failed: " + got.error().message;
  }

  // What is behind the head, and behind that.
  static std::string_view after_head(std::string_view text) {
    const auto end = text.find("\r\n\r\n");
    return end == std::string_view::npos ? std::string_view{} : text.substr(end + 4);
  }

  std::string bytes_ = std::string(3'000'000, '\0');
  bool reserves_ = true;
  bool sends_files_ = false;
  std::uint64_t counted_bytes_ = 0;
  std::optional<Result<>> outcome_;
  std::uint64_t sent_bytes_ = 0;
};

TEST_F(ServerFileTest, IsSentExactlyAndTheConnectionGoesOn) {
  const std::string text = ask_twice(2'000'000, 500'000, 2'000'000);
  EXPECT_TRUE(sends_files_);
  EXPECT_NE(text.find("content-length: 2000000\r\n"), std::string::npos);
  const auto first = after_head(text);
  ASSERT_GE(first.size(), 2'000'000U);
  EXPECT_TRUE(first.substr(0, 2'000'000) == std::string_view{bytes_}.substr(500'000, 2'000'000));
  const auto second = after_head(first.substr(2'000'000));
  EXPECT_TRUE(second == std::string_view{bytes_}.substr(500'000, 2'000'000)) << second.size();
  EXPECT_EQ(sent_bytes_, text.size()) << "what the kernel sends counts too";
}

TEST_F(ServerFileTest, AFileThatIsTooShortBreaksTheConnection) {
  const std::string text = ask_twice(2'000'000, 2'500'000, 2'000'000);
  EXPECT_EQ(after_head(text).size(), 500'000U) << "no second answer, no whole first one";
  ASSERT_TRUE(outcome_ && !*outcome_);
  EXPECT_EQ(outcome_->error().code, Code::kDataLoss);
  EXPECT_EQ(counted_bytes_, 500'000U) << "what really went out";
}

TEST_F(ServerFileTest, WithoutAPlaceNothingIsSentAndTheFileIsClosedElsewhere) {
  reserves_ = false;
  const auto closed_before = io::closing_elsewhere().closed;
  const std::string text = ask_twice(1'000, 0, 1'000);
  EXPECT_EQ(after_head(text), "");
  ASSERT_TRUE(outcome_ && !*outcome_);
  EXPECT_EQ(outcome_->error().code, Code::kInternal);
  while (io::closing_elsewhere().waiting > 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(io::closing_elsewhere().closed, closed_before + 1);
}

TEST_F(ServerFileTest, PlacesAreTakenFromTheReservationOnAndGivenBack) {
  std::vector<bool> reserved;
  TestServer server{[&reserved](Exchange& exchange) -> Task<> {
    reserved.push_back(exchange.reserve_file("sandbox"));
    if (reserved.size() == 1) {
      exchange.release_file();
      reserved.push_back(exchange.reserve_file("sandbox"));
      reserved.push_back(exchange.reserve_file("sandbox"));  // the one it has
    }
    co_return co_await exchange.respond({.status = 204, .headers = {}, .body = {}});
  }};
  const std::string ask = "GET / HTTP/1.1\r\nhost: x\r\n";
  ASSERT_TRUE(server.run(
      exchange_raw(server, concat(ask, "\r\n", ask, "\r\n", ask, "connection: close\r\n\r\n"))));
  EXPECT_EQ(reserved, std::vector<bool>(5, true))
      << "there are two, and each answer gives its back";
}

TEST_F(ServerFileTest, MoreThanWasAnnouncedIsNotSent) {
  const std::string text = ask_twice(100, 0, 101);
  EXPECT_EQ(after_head(text), "");
  ASSERT_TRUE(outcome_ && !*outcome_);
  EXPECT_EQ(outcome_->error().code, Code::kInternal);
}

TEST_F(ServerFileTest, LessThanWasAnnouncedIsNoAnswer) {
  const std::string text = ask_twice(1'000, 0, 999);
  EXPECT_EQ(after_head(text).size(), 999U);
}

}  // namespace
}  // namespace atl::http
