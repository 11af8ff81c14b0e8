// A guest that says anything at all, on the channel of a process that the daemon follows.
#include "base/scope.h"
#include "control/guest_client.h"
#include "memory_stream.h"

namespace atl::fuzz {
namespace {

Task<> follow(control::ProcessStream& stream, std::size_t& events) {
  for (;;) {
    CO_TRY(const auto event, co_await stream.next());
    ++events;
    if (std::holds_alternative<guest::ExitStatus>(event)) {
      co_return ok();
    }
  }
}

}  // namespace

void guest_channel(std::string_view bytes) {
  Input input{bytes};
  const auto cut = kCuts[input.number() % std::size(kCuts)];
  ManualLoop loop;
  Scope scope{loop};
  scope.on_error([](const char*, const Error& error) { CHECK(!error.message.empty()); });
  control::ProcessStream stream{
      std::make_unique<control::GuestChannel>(std::make_unique<MemoryStream>(input.rest(), cut)),
      1};
  std::size_t events = 0;
  scope.spawn("follow", follow(stream, events));
  for (int i = 0; i < 100 && scope.running() > 0; ++i) {
    loop.advance(std::chrono::seconds{10});
  }
  CHECK(scope.running() == 0);
  CHECK(events <= bytes.size());
}

Seeds guest_channel_seeds() {
  using guest::Kind;
  const auto output = guest::encode_output({guest::Stream::kStdout, 0}, "hello");
  const auto exit = guest::encode_frame(
      Kind::kExit, guest::encode(guest::ExitStatus{.exited = true, .exit_code = 3}));
  const std::string first(1, '\1');
  return {
      first + guest::encode_frame(Kind::kOutput, output) + exit,
      first + guest::encode_frame(Kind::kSynced) + guest::encode_frame(Kind::kOutput, output),
      first + guest::encode_frame(Kind::kError,
                                  guest::encode(Error{Code::kUnauthenticated, "no", "x"})),
      first + guest::encode_frame(Kind::kPong) + exit,
      first + guest::encode_frame(Kind::kOutput, "\7"),
      first + std::string("\xff\xff\xff\xff\x34", 5),
      first + exit.substr(0, exit.size() - 1),
  };
}

}  // namespace atl::fuzz
