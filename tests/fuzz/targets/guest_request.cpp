// Frames from the daemon, as the guest decodes them. The first byte is the frame's kind.
#include "guest/wire.h"
#include "wire.h"

namespace atl::fuzz {
namespace {

template <class T>
void check(std::string_view payload, Result<T> (*decode)(std::string_view)) {
  check_canonical(payload, decode(payload), [](const T& value) { return guest::encode(value); });
}

}  // namespace

void guest_request(std::string_view bytes) {
  Input input{bytes};
  const auto kind = static_cast<guest::Kind>(input.number());
  const auto payload = input.rest();
  switch (kind) {
    case guest::Kind::kSpawn:
      return check(payload, guest::decode_spawn);
    case guest::Kind::kCapture:
      return check(payload, guest::decode_capture);
    case guest::Kind::kRevive:
      return check(payload, guest::decode_revive);
    case guest::Kind::kAttach:
      return check(payload, guest::decode_attach);
    case guest::Kind::kSignalProcess:
      return check(payload, guest::decode_signal_process);
    case guest::Kind::kRemoveProcess:
      return check_canonical(payload, guest::decode_id(payload), guest::encode_id);
    case guest::Kind::kSignal:
      return check_canonical(payload, guest::decode_number(payload), guest::encode_number);
    case guest::Kind::kResize:
      return check(payload, guest::decode_pty_size);
    case guest::Kind::kStat:
      return check(payload, guest::decode_path);
    case guest::Kind::kReadFile:
      return check(payload, guest::decode_read_file);
    case guest::Kind::kWriteFile:
      return check(payload, guest::decode_write_file);
    case guest::Kind::kMakeDirectory:
      return check(payload, guest::decode_make_directory);
    case guest::Kind::kMove:
      return check(payload, guest::decode_move);
    case guest::Kind::kRemove:
      return check(payload, guest::decode_remove);
    case guest::Kind::kChangeMode:
      return check(payload, guest::decode_change_mode);
    case guest::Kind::kWatch:
      return check(payload, guest::decode_watch);
    case guest::Kind::kTreeEntry:
      return check(payload, guest::decode_tree_entry);
    case guest::Kind::kDiff:
      return check(payload, guest::decode_diff);
    case guest::Kind::kSyncFile:
      return check(payload, guest::decode_sync_file);
    case guest::Kind::kSearch:
      return check(payload, guest::decode_search);
    default:
      if (bytes.size() >= guest::kFrameHeaderBytes) {
        const auto header = guest::decode_header(bytes.substr(0, guest::kFrameHeaderBytes));
        CHECK(!header || header->payload_bytes <= guest::kMaxPayloadBytes);
      }
  }
}

Seeds guest_request_seeds() {
  const auto frame = [](guest::Kind kind, std::string payload) {
    return static_cast<char>(kind) + std::move(payload);
  };
  using guest::Kind;
  return {
      frame(Kind::kCapture, guest::encode(guest::CaptureRequest{"p", 12, 903, 1ULL << 30})),
      frame(Kind::kRevive,
            guest::encode(guest::ReviveRequest{{.process_id = "p", .argv = {"x"}}, "image"})),
      frame(Kind::kDiff, guest::encode(guest::DiffRequest{.from = {"/views/1"},
                                                          .to = {"/views/0", "/views/1"}})),
      frame(Kind::kSpawn, guest::encode(guest::SpawnRequest{.process_id = "p-1",
                                                            .argv = {"sh", "-c", "true"},
                                                            .env = {"A=b"},
                                                            .cwd = "/tmp",
                                                            .user = "user",
                                                            .pty = guest::PtySize{},
                                                            .timeout_ms = 1000,
                                                            .keep = true,
                                                            .channel = true})),
      frame(Kind::kSpawn, guest::encode(guest::SpawnRequest{.process_id = "x", .argv = {"a"}})),
      frame(Kind::kAttach, guest::encode(guest::AttachRequest{"p-1", 7})),
      frame(Kind::kSignalProcess, guest::encode(guest::SignalProcessRequest{"p-1", 9})),
      frame(Kind::kRemoveProcess, guest::encode_id("p-1")),
      frame(Kind::kSignal, guest::encode_number(15)),
      frame(Kind::kResize, guest::encode(guest::PtySize{})),
      frame(Kind::kStat, guest::encode(guest::PathRequest{"/a", "root"})),
      frame(Kind::kReadFile, guest::encode(guest::ReadFileRequest{.path = "/a", .user = "1:1"})),
      frame(Kind::kWriteFile, guest::encode(guest::WriteFileRequest{.path = "/a"})),
      frame(Kind::kMakeDirectory, guest::encode(guest::MakeDirectoryRequest{.path = "/a"})),
      frame(Kind::kMove, guest::encode(guest::MoveRequest{.source = "/a", .destination = "/b"})),
      frame(Kind::kRemove, guest::encode(guest::RemoveRequest{.path = "/a"})),
      frame(Kind::kChangeMode,
            guest::encode(guest::ChangeModeRequest{.path = "/a", .mode = 07777})),
      frame(Kind::kWatch, guest::encode(guest::WatchRequest{.path = "/a", .recursive = true})),
      frame(Kind::kTreeEntry, guest::encode(guest::TreeEntry{.path = "a/b", .size = 3})),
      frame(Kind::kTreeEntry, guest::encode(guest::TreeEntry{.path = "../b"})),
      frame(Kind::kTreeEntry,
            guest::encode(guest::TreeEntry{
                .path = "l", .type = guest::FileType::kSymlink, .link_target = "/etc"})),
      frame(Kind::kSearch, guest::encode(guest::SearchRequest{
                               .path = "/a", .name_glob = "**/*.c", .content_regex = "x+"})),
  };
}

}  // namespace atl::fuzz
