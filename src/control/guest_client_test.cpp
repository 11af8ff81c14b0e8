// The guest client against a polite guest and against guests that lie, stall and break off.
// Whatever they send, the caller gets an Error and nothing hangs.
#include "control/guest_client.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/random.h"
#include "control/capture.h"
#include "control/fake_guest.h"
#include "control/fixture.h"
#include "guest/wire_passing.h"

namespace atl::control {
namespace {

using guest::Kind;

class GuestClientTest : public testing::Test {
 protected:
  template <class T>
  Result<T> run(Task<T> task) {
    return reactor_.run_until_complete(beside(std::move(task)));
  }
  template <class T>
  Task<T> beside(Task<T> task) {
    Scope scope{co_await current_context()};
    scope.spawn("guest", guest_.run());
    auto result = co_await std::move(task);
    (void)co_await scope.cancel_and_join();
    co_return std::move(result);
  }
  // A guest that sends these bytes after the request and closes.
  void answer_with(std::string bytes) {
    guest_.script = [bytes](io::Stream& stream) { return send_and_close(stream, bytes); };
  }
  static Task<> send_and_close(io::Stream& stream, std::string bytes) {
    std::string buffer(1024, '\0');
    CO_TRY_DO(co_await stream.read(buffer));
    co_return co_await stream.write(bytes);
  }
  // Every operation, one after the other; none may succeed on garbage.
  static Task<> try_everything(GuestClient client) {
    EXPECT_FALSE(co_await client.ping());
    EXPECT_FALSE(co_await client.list_processes());
    EXPECT_FALSE(co_await client.stat({.path = "/a"}));
    EXPECT_FALSE(co_await client.list_directory({.path = "/a"}));
    EXPECT_FALSE(co_await client.remove({.path = "/a"}));
    EXPECT_FALSE(co_await client.remove_process("p"));
    auto reader = co_await client.read_file({.path = "/a"});
    EXPECT_FALSE(reader);
    auto stream = co_await client.spawn({.process_id = "p", .argv = {"x"}});
    EXPECT_FALSE(stream);
    auto writer = co_await client.write_file({.path = "/a"});
    if (writer) {
      EXPECT_FALSE(co_await (*writer)->finish());
    }
    co_return ok();
  }

  // A guest that answers with a descriptor and then does as it is told.
  static Task<> pass(io::Stream& stream, int descriptor, std::string after) {
    std::string buffer(1024, '\0');
    CO_TRY_DO(co_await stream.read(buffer));
    const std::string frame = guest::encode_frame(
        Kind::kFile, guest::encode(guest::FileInfo{.name = "a", .path = "/a", .size = 7}));
    CO_TRY_DO(co_await stream.write_passing(frame, descriptor));
    co_return co_await stream.write(after);
  }
  static Task<bool> read_passed(GuestClient client, std::uint64_t length) {
    CO_TRY(const auto reader, co_await client.read_file({.path = "/a", .length = length}));
    const io::ForeignFd file = reader->take_file();
    CO_TRY_DO(co_await with_deadline(std::chrono::seconds{60}, reader->gone()));
    char bytes[8] = {};
    co_return file&& ::pread(file.get(), bytes, sizeof bytes, 0) == 7 &&
        std::string_view{bytes} == "content";
  }

  TemporaryDirectory directory_;
  io::Reactor reactor_;
  FakeGuest guest_{reactor_, directory_.path() + "/guest.sock"};
  GuestClient client_{reactor_, guest_.path()};
};

TEST_F(GuestClientTest, AFileIsPassedOnlyWhenAskedFor) {
  const Fd file{::memfd_create("a", MFD_CLOEXEC)};
  ASSERT_TRUE(write_all(file.get(), "content"));
  guest_.script = [&file](io::Stream& stream) { return pass(stream, file.get(), {}); };
  const auto passed = run(read_passed(client_, guest::with_passing(UINT64_MAX)));
  ASSERT_TRUE(passed) << passed.error().message;
  EXPECT_TRUE(*passed);
  EXPECT_FALSE(run(read_passed(client_, UINT64_MAX))) << "one that nobody asked for";
}

TEST_F(GuestClientTest, AGuestThatTalksWhileItsFileIsReadCountsAsGone) {
  const Fd file{::memfd_create("a", MFD_CLOEXEC)};
  ASSERT_TRUE(write_all(file.get(), "content"));
  guest_.script = [&file](io::Stream& stream) {
    return pass(stream, file.get(), guest::encode_frame(Kind::kData, "what?"));
  };
  EXPECT_TRUE(run(read_passed(client_, guest::with_passing(UINT64_MAX))));
}

TEST_F(GuestClientTest, PoliteGuestAnswers) {
  guest_.files["/a"] = random_bytes(300'000);
  struct Conversation {
    static Task<> run(GuestClient client, std::string expected) {
      EXPECT_TRUE(co_await client.ping());
      auto stream = co_await client.spawn({.process_id = "p", .argv = {"echo", "hi"}});
      EXPECT_TRUE(stream);
      auto output = co_await (*stream)->next();
      EXPECT_EQ(std::get<guest::Output>(*output).bytes, "hi\n");
      auto exit = co_await (*stream)->next();
      EXPECT_TRUE(std::get<guest::ExitStatus>(*exit).exited);
      auto reader = co_await client.read_file({.path = "/a"});
      EXPECT_TRUE(reader);
      std::string content;
      for (;;) {
        CO_TRY(const auto bytes, co_await (*reader)->next());
        if (bytes.empty()) {
          break;
        }
        content += bytes;
      }
      EXPECT_EQ(content, expected);
      co_return ok();
    }
  };
  const auto done = run(Conversation::run(client_, guest_.files["/a"]));
  EXPECT_TRUE(done) << done.error().message;
}

TEST_F(GuestClientTest, GuestErrorsArriveButCannotSpeakForUs) {
  answer_with(guest::encode_frame(
      Kind::kError, guest::encode(Error{Code::kUnauthenticated, "log in\x1b[2J", "x y"})));
  const auto pong = run(client_.ping());
  ASSERT_FALSE(pong);
  EXPECT_EQ(pong.error().code, Code::kUnknown);
  EXPECT_EQ(pong.error().message.find('\x1b'), std::string::npos);
}

TEST_F(GuestClientTest, HostileAnswersBecomeErrors) {
  const std::string huge = ByteWriter{}.u32(0xffffffff).u8(50).bytes();
  const std::string truncated =
      guest::encode_frame(Kind::kFile, std::string(200, 'x')).substr(0, 50);
  std::string wrong_kind = guest::encode_frame(Kind::kStdin, "boo");
  std::string endless_count = guest::encode_frame(Kind::kProcess, std::string(64, '\xff'));
  const std::string answers[] = {"",
                                 "x",
                                 huge,
                                 truncated,
                                 wrong_kind,
                                 endless_count,
                                 random_bytes(5000),
                                 guest::encode_frame(static_cast<Kind>(200), "?"),
                                 guest::encode_frame(Kind::kError, std::string(3, '\xff')),
                                 guest::encode_frame(Kind::kPong, "short"),
                                 guest::encode_frame(Kind::kFile, "short"),
                                 guest::encode_frame(Kind::kStarted, ""),
                                 guest::encode_frame(Kind::kDone, "content")};
  for (const auto& answer : answers) {
    answer_with(answer);
    ASSERT_TRUE(run(try_everything(client_)));
  }
}

TEST_F(GuestClientTest, AProcessThatBreaksOffOrTurnsIntoAFileIsAnError) {
  struct Conversation {
    static Task<> run(GuestClient client, Code expected) {
      auto stream = co_await client.spawn({.process_id = "p", .argv = {"x"}});
      EXPECT_TRUE(stream);
      auto output = co_await (*stream)->next();
      EXPECT_TRUE(output);
      auto rest = co_await (*stream)->next();
      EXPECT_FALSE(rest);
      EXPECT_EQ(rest.error().code, expected);
      co_return ok();
    }
  };
  const std::string begin =
      guest::encode_frame(Kind::kStarted, guest::encode_number(1)) +
      guest::encode_frame(Kind::kOutput, guest::encode_output({guest::Stream::kStdout, 0}, "a"));
  answer_with(begin);
  ASSERT_TRUE(run(Conversation::run(client_, Code::kUnavailable)));
  answer_with(begin + guest::encode_frame(Kind::kData, "a"));
  ASSERT_TRUE(run(Conversation::run(client_, Code::kDataLoss)));
  answer_with(begin + guest::encode_frame(Kind::kOutput, "\x09"));
  ASSERT_TRUE(run(Conversation::run(client_, Code::kDataLoss)));
}

TEST_F(GuestClientTest, AnEndlessListingIsCutOff) {
  struct Flood {
    static Task<> run(io::Stream& stream) {
      const std::string frame = guest::encode_frame(
          Kind::kFile, guest::encode(guest::FileInfo{.name = "a", .path = "/a"}));
      std::string many;
      for (int i = 0; i < 1000; ++i) {
        many += frame;
      }
      for (;;) {
        CO_TRY_DO(co_await stream.write(many));
      }
    }
  };
  guest_.script = [](io::Stream& stream) { return Flood::run(stream); };
  const auto listed = run(client_.list_directory({.path = "/"}));
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code, Code::kResourceExhausted);
}

// The process prints for ever, faster than we read: others get their turn meanwhile.
TEST(GuestChannel, EndlessFramesLeaveTheLoopItsTurns) {
  class Endless final : public io::Stream {
   public:
    Task<std::size_t> read(std::span<char> buffer) override {
      static const std::string frame = guest::encode_frame(
          Kind::kOutput, guest::encode_output({guest::Stream::kStdout, 0}, "x"));
      std::size_t size = 0;
      for (; size + frame.size() <= buffer.size(); size += frame.size()) {
        std::copy(frame.begin(), frame.end(), buffer.begin() + static_cast<std::ptrdiff_t>(size));
      }
      co_return size;
    }
    Task<> write(std::string_view) override { co_return ok(); }
    Task<> write(std::string_view, std::string_view) override { co_return ok(); }
    Result<> finish_writing() override { return {}; }
  };
  struct Reading {
    static Task<std::size_t> run(GuestChannel& channel) {
      constexpr std::size_t kEnough = 100'000;  // then nobody else has ever had a turn
      for (std::size_t count = 0; count < kEnough; ++count) {
        auto frame = co_await channel.receive(Duration::zero());
        if (!frame) {
          co_return frame.error().code == Code::kCancelled ? Result<std::size_t>{count}
                                                           : fail(std::move(frame).error());
        }
      }
      co_return fail(Code::kInternal, "nobody else had a turn");
    }
    static Task<std::size_t> until_cancelled(GuestChannel& channel) {
      TaskContext& outer = co_await current_context();
      CancelState cancel{outer.cancel};
      TaskContext inner{outer.loop, &cancel};
      Scope others{outer};
      others.spawn("other", cancel_it(cancel));
      auto count = co_await run(channel).under(inner);
      (void)co_await others.cancel_and_join();
      co_return std::move(count);
    }
    static Task<> cancel_it(CancelState& cancel) {
      CO_TRY_DO(co_await sleep_for(Duration::zero()));
      cancel.cancel();
      co_return ok();
    }
  };
  io::Reactor reactor;
  GuestChannel channel{std::make_unique<Endless>()};
  const auto count = reactor.run_until_complete(Reading::until_cancelled(channel));
  ASSERT_TRUE(count) << count.error().message;
}

TEST_F(GuestClientTest, NobodyListeningIsUnavailable) {
  const GuestClient nobody{reactor_, directory_.path() + "/nobody.sock"};
  const auto pong = run(nobody.ping());
  ASSERT_FALSE(pong);
  EXPECT_EQ(pong.error().code, Code::kUnavailable);
}

TEST_F(GuestClientTest, ARefusedUploadTellsWhy) {
  struct Upload {
    static Task<guest::FileInfo> run(GuestClient client) {
      CO_TRY(auto writer, co_await client.write_file({.path = "/forbidden/a"}));
      const std::string piece(256 * 1024, 'x');
      for (int i = 0; i < 64; ++i) {
        CO_TRY_DO(co_await writer->write(piece));
      }
      co_return co_await writer->finish();
    }
  };
  const auto written = run(Upload::run(client_));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().reason, "permission_denied");
}

// A stream that never says anything, on a loop whose clock we move: deadlines, not patience.
class SilentStream final : public io::Stream {
 public:
  Task<std::size_t> read(std::span<char> buffer) override {
    while (text.empty()) {
      CO_TRY_DO(co_await never_.wait());
    }
    const std::size_t size = std::min(buffer.size(), text.size());
    std::copy_n(text.data(), size, buffer.data());
    text.erase(0, size);
    co_return size;
  }
  Task<> write(std::string_view) override { co_return co_await never_.wait(); }
  Task<> write(std::string_view, std::string_view) override { co_return co_await never_.wait(); }
  Result<> finish_writing() override { return {}; }
  std::string text;

 private:
  Event never_;
};

TEST(GuestChannel, SilenceEndsAtTheDeadline) {
  Simulation simulation;
  GuestChannel silent{std::make_unique<SilentStream>()};
  const auto frame = simulation.run(silent.receive(kGuestAnswerTimeout));
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(simulation.run(silent.send(Kind::kPing, {})).error().code, Code::kDeadlineExceeded);
  // Half a frame, even where the first byte may take for ever.
  auto stalled = std::make_unique<SilentStream>();
  stalled->text = guest::encode_frame(Kind::kOutput, "0123456789").substr(0, 8);
  GuestChannel half{std::move(stalled)};
  EXPECT_EQ(simulation.run(half.receive(Duration::zero())).error().code, Code::kDeadlineExceeded);
}

TEST(Capture, KeepsTheNewestBytesAndTheBudget) {
  CaptureBudget budget{.max_bytes = 100};
  {
    Capture capture{budget, 10};
    capture.append("0123456");
    capture.append("789ab");
    EXPECT_TRUE(capture.truncated());
    EXPECT_EQ(budget.used_bytes, 10U);
    EXPECT_EQ(capture.take(), "23456789ab");
  }
  EXPECT_EQ(budget.used_bytes, 0U);
  Capture first{budget, 90};
  first.append(std::string(90, 'x'));
  Capture second{budget, 90};
  second.append(std::string(50, 'y'));
  EXPECT_TRUE(second.truncated());
  EXPECT_LE(budget.used_bytes, 100U);
  EXPECT_EQ(second.take(), std::string(10, 'y'));
  CaptureBudget ample;
  Capture text{ample, 4};
  text.append("\xc3\xa4\xc3\xa4\xc3\xa4");
  text.append("z");
  EXPECT_EQ(text.take(), "\xc3\xa4z") << "no half character at the cut";
}

}  // namespace
}  // namespace atl::control
