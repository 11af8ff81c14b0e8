// Files into sockets: exact bytes, and whatever a stranger may have opened.
#include "io/file_sender.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <latch>
#include <thread>

#include "base/plain_file.h"
#include "io/stream.h"

namespace atl::io {
namespace {

using namespace std::chrono_literals;

class FileSenderTest : public testing::Test {
 protected:
  FileSenderTest() {
    ::signal(SIGPIPE, SIG_IGN);
    char directory[] = "/tmp/atoll-file-sender-XXXXXX";
    CHECK(::mkdtemp(directory) != nullptr);
    directory_ = directory;
    int fds[2];
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    socket_ = Fd{fds[0]};
    reader_ = std::make_unique<FdStream>(reactor_, Fd{fds[1]});
  }
  ~FileSenderTest() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }

  // Bytes that tell where they come from.
  static std::string content(std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) {
      bytes[i] = static_cast<char>(i * 31 + i / 4096);
    }
    return bytes;
  }

  ForeignFd make(const std::string& name, std::string_view bytes, int flags = O_RDONLY) const {
    const Fd file{::open(path(name).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)};
    CHECK(write_all(file.get(), bytes));
    return open(name, flags);
  }
  ForeignFd open(const std::string& name, int flags = O_RDONLY) const {
    return ForeignFd{Fd{::open(path(name).c_str(), flags | O_CLOEXEC)}};
  }

  static Task<std::string> receive(Stream& stream, std::size_t size) {
    std::string bytes(size, '\0');
    CO_TRY_DO(co_await read_exactly(stream, bytes));
    co_return bytes;
  }

  static Task<> send_and_keep(FileSender& sender, int socket, FileSender::Piece piece,
                              std::optional<Result<>>& outcome) {
    const auto place = sender.reserve("sandbox");
    CHECK(place != nullptr);
    outcome = co_await sender.send(*place, socket, std::move(piece));
    co_return ok();
  }

  // What arrives while it is being sent, and how the sending ends.
  Task<std::string> both(FileSender::Piece piece, std::size_t size) {
    Scope scope{co_await current_context()};
    scope.spawn("send", send_and_keep(sender_, socket_.get(), std::move(piece), outcome_));
    auto got = co_await receive(*reader_, size);
    (void)co_await scope.join();
    co_return std::move(got);
  }

  // The socket takes some hundred kilobytes; then the file is cut, and only then is it read on.
  Task<std::string> cut_while_sending(const std::string& bytes) {
    Scope scope{co_await current_context()};
    FileSender::Piece piece{.file = make("cut", bytes), .length = bytes.size()};
    scope.spawn("send", send_and_finish(std::move(piece)));
    CO_TRY_DO(co_await reader_->wait_readable());
    CHECK(::truncate(path("cut").c_str(), 1'000'000) == 0);
    std::string all;
    char buffer[65536];
    for (std::size_t got = 1; got > 0; all.append(buffer, got)) {
      CO_TRY(got, co_await reader_->read(buffer));
    }
    (void)co_await scope.join();
    co_return all;
  }
  Task<> send_and_finish(FileSender::Piece piece) {
    outcome_ = co_await sender_.send(place_, socket_.get(), std::move(piece));
    ::shutdown(socket_.get(), SHUT_WR);
    co_return ok();
  }

  // Into two sockets that nobody reads.
  Task<> send_two() {
    Scope scope{co_await current_context()};
    int fds[2];
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    const Fd other{fds[0]};
    const Fd its_reader{fds[1]};
    make("large", content(8'000'000));
    std::optional<Result<>> second;
    FileSender::Piece first_piece{.file = open("large"), .length = 8'000'000};
    scope.spawn("one", send_and_keep(sender_, socket_.get(), std::move(first_piece), outcome_));
    EXPECT_TRUE(sender_.reserve("other"));
    FileSender::Piece second_piece{.file = open("large"), .length = 8'000'000};
    scope.spawn("two", send_and_keep(sender_, other.get(), std::move(second_piece), second));
    EXPECT_FALSE(sender_.reserve("other"));
    (void)co_await scope.cancel_and_join();
    EXPECT_TRUE(sender_.reserve("other"));
    co_return ok();
  }

  // Both threads are held up, so whoever gets one does not come to its end.
  Task<> wait_for_threads() {
    Scope scope{co_await current_context()};
    std::latch free{1};
    for (int i = 0; i < 2; ++i) {
      scope.spawn("busy", hold_thread(free));
    }
    make("plain", "content");
    scope.spawn("one", send_of(place_, outcome_));
    // The second of this owner waits, on the loop: it can be cancelled, and has a time limit.
    FileSender::Piece cancelled{.file = open("plain"), .length = 7};
    auto sent =
        co_await with_deadline(10ms, sender_.send(place_, socket_.get(), std::move(cancelled)));
    EXPECT_TRUE(!sent && sent.error().code == Code::kDeadlineExceeded);
    FileSender::Piece timed{.file = open("plain"), .length = 7, .stall_timeout = 10ms};
    sent = co_await sender_.send(place_, socket_.get(), std::move(timed));
    EXPECT_TRUE(!sent && sent.error().reason == "busy");
    // Another owner has the other thread; then they are all taken, and when that lasts it shows.
    const FileSender::Place other{sender_, "another"};
    std::optional<Result<>> others;
    scope.spawn("two", send_of(other, others));
    EXPECT_TRUE(sender_.reserve("third")) << "nobody has waited yet";
    std::optional<Result<>> last;
    scope.spawn("three", send_of(place_, last));
    while (sender_.reserve("third")) {
      CO_TRY_DO(co_await sleep_for(10ms));
    }
    free.count_down();
    (void)co_await scope.join();
    EXPECT_TRUE(outcome_ && *outcome_ && others && *others && last && *last);
    EXPECT_TRUE(sender_.reserve("third"));
    co_return ok();
  }
  Task<> hold_thread(std::latch& free) {
    CO_TRY_DO(co_await threads_.run([&free]() -> Result<bool> {
      free.wait();
      return true;
    }));
    co_return ok();
  }
  Task<> send_of(const FileSender::Place& place, std::optional<Result<>>& outcome) {
    FileSender::Piece piece{.file = open("plain"), .length = 7};
    outcome = co_await sender_.send(place, socket_.get(), std::move(piece));
    co_return ok();
  }

  Result<> send(FileSender::Piece piece) {
    return reactor_.run_until_complete(sender_.send(place_, socket_.get(), std::move(piece)));
  }

  Reactor reactor_;
  OffloadPool threads_{"test", 2, 16};
  FileSender sender_{reactor_, threads_, 3, 2};
  FileSender::Place place_{sender_, "sandbox"};
  std::string directory_;
  Fd socket_;
  std::unique_ptr<FdStream> reader_;
  std::optional<Result<>> outcome_;
};

TEST_F(FileSenderTest, SendsASliceAndCountsIt) {
  const std::string bytes = content(5'000'000);
  Counter counter;
  const auto got = reactor_.run_until_complete(both({.file = make("a", bytes),
                                                     .offset = 12'345,
                                                     .length = 4'900'000,
                                                     .stall_timeout = 10s,
                                                     .sent_bytes = &counter},
                                                    4'900'000));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(*got == bytes.substr(12'345, 4'900'000));
  EXPECT_TRUE(outcome_ && *outcome_);
  EXPECT_EQ(counter.value(), 4'900'000U);
  EXPECT_TRUE(sender_.reserve("other"));
}

TEST_F(FileSenderTest, AHugeSparseFileIsSentFromWhereItIsAskedFor) {
  const ForeignFd file = make("sparse", "", O_WRONLY);
  constexpr std::uint64_t kFar = std::uint64_t{1} << 40;
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(kFar + 1'000'000)), 0);
  ASSERT_EQ(::pwrite(file.get(), "end", 3, static_cast<off_t>(kFar + 999'997)), 3);
  const auto got = reactor_.run_until_complete(
      both({.file = open("sparse"), .offset = kFar, .length = 1'000'000}, 1'000'000));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, std::string(999'997, '\0') + "end");
}

TEST_F(FileSenderTest, AFileThatEndsBeforeIsDataLoss) {
  const auto sent = send({.file = make("short", "only this"), .offset = 5, .length = 100});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::kDataLoss);
}

TEST_F(FileSenderTest, AFileThatIsCutWhileItIsSentIsDataLoss) {
  const std::string bytes = content(8'000'000);
  const auto got = reactor_.run_until_complete(with_deadline(60s, cut_while_sending(bytes)));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_LE(got->size(), 1'000'000U);
  EXPECT_TRUE(bytes.starts_with(*got));
  ASSERT_TRUE(outcome_ && !*outcome_);
  EXPECT_EQ(outcome_->error().code, Code::kDataLoss);
}

TEST_F(FileSenderTest, AReaderThatStopsIsNotWaitedForForEver) {
  const auto sent =
      send({.file = make("large", content(8'000'000)), .length = 8'000'000, .stall_timeout = 50ms});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::kDeadlineExceeded);
  EXPECT_TRUE(sender_.reserve("other"));
}

TEST_F(FileSenderTest, AReaderThatIsGoneEndsIt) {
  reader_.reset();
  const auto sent = send({.file = make("large", content(100'000)), .length = 100'000});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::kUnavailable);
}

TEST_F(FileSenderTest, IsCancelledWhileTheSocketIsFull) {
  const auto sent = reactor_.run_until_complete(with_deadline(
      50ms, sender_.send(place_, socket_.get(),
                         {.file = make("large", content(8'000'000)), .length = 8'000'000})));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::kDeadlineExceeded);
  EXPECT_TRUE(sender_.reserve("other"));
}

TEST_F(FileSenderTest, SaysWhenMoreAreABadIdea) {
  EXPECT_TRUE(reactor_.run_until_complete(with_deadline(60s, send_two())));
}

TEST_F(FileSenderTest, PlacesAreTakenFromTheReservationOn) {
  auto second = sender_.reserve("sandbox");
  const auto third = sender_.reserve("another");
  EXPECT_TRUE(second && third);
  EXPECT_FALSE(sender_.reserve("third"));
  second.reset();
  EXPECT_TRUE(sender_.reserve("third"));
}

TEST_F(FileSenderTest, WhoCancelsAfterTheLastByteComesTooLate) {
  const auto late = [this](ForeignFd file) -> Task<> {
    TaskContext& outer = co_await current_context();
    CancelState cancel{outer.cancel};
    TaskContext inner{outer.loop, &cancel, outer.trace};
    cancel.cancel();
    FileSender::Piece piece{.file = std::move(file), .length = 7};
    co_return co_await sender_.send(place_, socket_.get(), std::move(piece)).under(inner);
  };
  EXPECT_TRUE(reactor_.run_until_complete(late(make("small", "content"))));
}

TEST_F(FileSenderTest, FilesAreClosedElsewhereHoweverItEnds) {
  const auto settled = [] {
    while (closing_elsewhere().waiting > 0) {
      std::this_thread::yield();
    }
    return closing_elsewhere().closed;
  };
  make("plain", "content");
  const auto before = settled();
  EXPECT_TRUE(send({.file = open("plain"), .length = 7}));
  EXPECT_FALSE(send({.file = open("plain"), .length = 8}));
  EXPECT_FALSE(send({.file = open("plain"), .length = UINT64_MAX}));
  EXPECT_FALSE(send({.file = open(".", O_RDONLY | O_DIRECTORY), .length = 1}));
  EXPECT_EQ(settled(), before + 4);
}

TEST_F(FileSenderTest, OneOwnerDoesNotGetAllThreadsAndWhoWaitsCanLeave) {
  EXPECT_TRUE(reactor_.run_until_complete(with_deadline(60s, wait_for_threads())));
}

TEST_F(FileSenderTest, NothingButAPlainFileIsRead) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  make("plain", "x");
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  ForeignFd strange[] = {
      open("fifo", O_RDONLY | O_NONBLOCK),
      open(".", O_RDONLY | O_DIRECTORY),
      open("plain", O_PATH),
      open("plain", O_WRONLY),
      open("plain", O_RDWR),
      ForeignFd{Fd{sockets[0]}},
      ForeignFd{Fd{sockets[1]}},
      ForeignFd{Fd{::open("/proc/self/status", O_RDONLY | O_CLOEXEC)}},
      ForeignFd{Fd{::open("/proc/self/mem", O_RDONLY | O_CLOEXEC)}},
      ForeignFd{Fd{::open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC)}},
      ForeignFd{Fd{::open("/dev/zero", O_RDONLY | O_CLOEXEC)}}};
  for (ForeignFd& each : strange) {
    if (!each) {  // not every host has every file
      continue;
    }
    const int number = each.get();
    EXPECT_FALSE(check_plain_file(number)) << number;
    const auto sent = send({.file = std::move(each), .length = 1});
    ASSERT_FALSE(sent) << number;
    EXPECT_EQ(sent.error().reason, "not_plain_file") << number;
  }
  char byte = 0;
  EXPECT_EQ(::recv(reader_->fd(), &byte, 1, MSG_DONTWAIT), -1) << "nothing was sent";
  EXPECT_TRUE(check_plain_file(open("plain").get()));
}

TEST_F(FileSenderTest, NumbersThatNoFileHasAreRefused) {
  for (const auto& [offset, length] : {std::pair<std::uint64_t, std::uint64_t>{UINT64_MAX, 1},
                                       {1, UINT64_MAX},
                                       {INT64_MAX, INT64_MAX}}) {
    const auto sent = send({.file = make("plain", "x"), .offset = offset, .length = length});
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, Code::kOutOfRange);
  }
}

}  // namespace
}  // namespace atl::io
