// Frames from a guest, as the daemon decodes them. The first byte is the frame's kind.
#include "base/strings.h"
#include "guest/wire.h"
#include "wire.h"

namespace atl::fuzz {
namespace {

template <class T>
void check(std::string_view payload, Result<T> (*decode)(std::string_view)) {
  check_canonical(payload, decode(payload), [](const T& value) { return guest::encode(value); });
}

void check_output(std::string_view payload) {
  check_canonical(payload, guest::decode_output(payload), [](const guest::Output& output) {
    return guest::encode_output(output.header, output.bytes);
  });
}

// What a guest says went wrong is bounded and printable, whatever it sent.
void check_error(std::string_view payload) {
  const Error error = guest::decode_error(payload);
  CHECK(is_utf8(error.message) && is_utf8(error.reason));
  CHECK(error.message.size() <= 4 * guest::kMaxErrorBytes);
}

}  // namespace

void guest_answer(std::string_view bytes) {
  Input input{bytes};
  const auto kind = static_cast<guest::Kind>(input.number());
  const auto payload = input.rest();
  switch (kind) {
    case guest::Kind::kPong:
      return check(payload, guest::decode_pong);
    case guest::Kind::kStarted:
      return check_canonical(payload, guest::decode_number(payload), guest::encode_number);
    case guest::Kind::kOutput:
      return check_output(payload);
    case guest::Kind::kExit:
      return check(payload, guest::decode_exit);
    case guest::Kind::kProcess:
      return check(payload, guest::decode_process);
    case guest::Kind::kFile:
      return check(payload, guest::decode_file);
    case guest::Kind::kFileEvent:
      return check(payload, guest::decode_file_event);
    case guest::Kind::kTreeEntry:
      return check(payload, guest::decode_tree_entry);
    case guest::Kind::kChange:
      return check(payload, guest::decode_change);
    case guest::Kind::kTreeDone:
      return check(payload, guest::decode_tree_done);
    case guest::Kind::kMatch:
      return check(payload, guest::decode_match);
    case guest::Kind::kEnd:
      return check(payload, guest::decode_search_end);
    default:
      return check_error(payload);
  }
}

Seeds guest_answer_seeds() {
  const auto frame = [](guest::Kind kind, std::string payload) {
    return static_cast<char>(kind) + std::move(payload);
  };
  using guest::Kind;
  return {
      frame(Kind::kPong, guest::encode(guest::Pong{})),
      frame(Kind::kChange,
            guest::encode(guest::Change{.change = guest::ChangeType::kChanged,
                                        .entry = {.path = "a/b", .attributes = {{"user.a", "1"}}},
                                        .old_type = guest::FileType::kDirectory})),
      frame(Kind::kStarted, guest::encode_number(4711)),
      frame(Kind::kOutput, guest::encode_output({guest::Stream::kStderr, 7}, "bytes")),
      frame(Kind::kExit, guest::encode(guest::ExitStatus{.exited = true, .exit_code = 3})),
      frame(Kind::kExit, guest::encode(guest::ExitStatus{.signal = 9, .timed_out = true})),
      frame(Kind::kProcess, guest::encode(guest::ProcessInfo{.process_id = "p-1",
                                                             .pid = 7,
                                                             .argv = {"sh"},
                                                             .cwd = "/",
                                                             .user = "root",
                                                             .started_unix_ms = 1,
                                                             .running = true})),
      frame(Kind::kFile, guest::encode(guest::FileInfo{.name = "a",
                                                       .path = "/a",
                                                       .type = guest::FileType::kSymlink,
                                                       .size = 1,
                                                       .link_target = "b"})),
      frame(Kind::kFileEvent, guest::encode(guest::FileEvent{.path = "/a/b"})),
      frame(Kind::kTreeEntry, guest::encode(guest::TreeEntry{.path = "a", .size = 3})),
      frame(Kind::kTreeDone, guest::encode(guest::TreeDone{.files = 1, .bytes = 3})),
      frame(Kind::kMatch, guest::encode(guest::Match{.path = "/a", .line_text = "x"})),
      frame(Kind::kEnd, guest::encode(guest::SearchEnd{.truncated = true, .skipped_files = 1})),
      frame(Kind::kError, guest::encode(Error{Code::kNotFound, "there is no such file", "gone"})),
      frame(Kind::kError, guest::encode(Error{Code::kInternal, "\xff\x1b[2J\n", "a b"})),
  };
}

}  // namespace atl::fuzz
