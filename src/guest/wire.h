// The guest protocol: what atolld says to atoll-guest, and what comes back.
//
// One connection per operation, over the unix socket the guest inherited. A frame is
//
//     u32 payload length (little-endian, at most kMaxPayloadBytes) | u8 kind | payload
//
// The first frame from the client is the request. The guest answers as the request says, then
// closes. Any request may be answered by one kError frame instead. Payloads use base/bytes.h.
//
//   request            answer                                      client may also send
//   kPing              kPong
//   kSpawn             kStarted, kOutput*, kExit                   kStdin, kStdinEnd, kSignal,
//                                                                  kResize, kChannelInput, kSync
//   kAttach            (kProcess,) kStarted, kOutput*, kExit       the same
//   kListProcesses     kProcess*, kEnd
//   kGetProcess        kProcess
//   kSignalProcess     kDone
//   kRemoveProcess     kDone (the process is gone)
//   kCapture           kImage (with a descriptor)
//   kRevive (with a    as kSpawn                                  the same
//     descriptor)
//   kStat              kFile
//   kListDirectory     kFile*, kEnd
//   kReadFile          kFile, kData*, kEnd
//   kWriteFile         kFile (after the client's kEnd)             kData*, kEnd
//   kMakeDirectory, kMove, kRemove, kChangeMode   kDone
//   kWatch             kWatching, kFileEvent* (until the client closes)
//   kReadTree          (kTreeEntry, kData*)*, kEnd
//   kWriteTree         kTreeDone (after the client's kEnd)         (kTreeEntry, kData*)*, kEnd
//   kSearch            kMatch*, kEnd (with a SearchEnd)
//   kInstallTrust      kDone
//   kDiff              (kChange, kData*)*, kEnd; kSynced in between: still at it
//   kFindSocket        kSocketHolder
//
// Processes. A process has a caller-chosen id. With `keep` it outlives the connection and stays
// in the guest's table, with its exit status and journal, until kRemoveProcess; without, closing
// the connection kills its process group and forgets it. The journal keeps the newest
// `journal_bytes` of output in order; offsets count all output bytes of the process from its
// start, so a reader sees a gap if it attached too late. A connected reader is never dropped: when
// it is slow, the guest stops reading the process's pipes. Output that nobody has read yet is not
// dropped at once either: when it fills the journal, the guest stops reading the pipes until a
// reader comes, at most for kFirstReaderGraceMs; after that the oldest goes.
//
// The channel. With `channel` the child has a stream socket as descriptor 3 that is its own, apart
// from stdin, stdout and stderr. What it writes there is output like any other, in the same
// journal and offsets, and what it wrote to a stdout or stderr pipe before is delivered before.
// An end of the channel alone does not end the process.
//
// Images. kCapture takes the image of a process that stands still: a copy that the process named by
// its id has made of itself. The image is a description, which only guests can read, and a sealed
// memory file, which is passed as a descriptor with the first byte of the frame. kRevive makes a
// process from both, in this or another sandbox with the same files. The copy is gone afterwards,
// whatever the answer.
//
// Files. Paths are absolute and resolved inside the sandbox by a child that has the caller's
// identity (`user`), so ordinary permissions apply and the host never follows a guest path. A path
// may also begin with the user's home directory as ~ or ~/, and so may a working directory.
// "owner:NAME" or "owner:UID:GID" as the user of a file request: root's rights, but what is made
// belongs to that user.
//
// Trees. A tree is a sequence of entries with paths relative to its root; exactly `size` bytes of
// kData follow the entry of a file, whatever becomes of the file meanwhile. Nothing in a tree can
// name something outside: both sides refuse such paths (reason path_escapes) when they decode, and
// the guest resolves what it writes beneath the root without following any symlink.
//
// The host must treat every byte from the guest as hostile: all decode functions below fail
// instead of trusting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "guest/wire_files.h"

namespace atl::guest {

inline constexpr std::uint32_t kProtocolVersion = 3;
inline constexpr std::size_t kFrameHeaderBytes = 5;
inline constexpr std::uint32_t kMaxPayloadBytes = 256 * 1024;
inline constexpr std::uint32_t kDefaultJournalBytes = 4 * 1024 * 1024;
inline constexpr std::size_t kMaxProcessIdBytes = 64;
inline constexpr std::size_t kMaxLabelBytes = std::size_t{16} * 1024;

enum class Kind : std::uint8_t {
  // Requests.
  kPing = 1,
  kSpawn = 2,
  kAttach = 3,
  kListProcesses = 4,
  kSignalProcess = 5,
  kRemoveProcess = 6,
  kGetProcess = 7,
  kCapture = 8,
  kRevive = 9,
  kStat = 10,
  kListDirectory = 11,
  kReadFile = 12,
  kWriteFile = 13,
  kMakeDirectory = 14,
  kMove = 15,
  kRemove = 16,
  kChangeMode = 17,
  kWatch = 18,
  kReadTree = 19,
  kWriteTree = 20,
  kSearch = 21,
  kSyncFile = 22,
  kDiff = 23,
  kFindSocket = 24,
  kInstallTrust = 26,
  // Client frames inside an operation.
  kStdin = 30,         // raw bytes
  kStdinEnd = 31,      // empty
  kSignal = 32,        // u32 signal number
  kResize = 33,        // u32 rows, u32 columns
  kChannelInput = 34,  // raw bytes, to the other end of the child's descriptor 3
  kSync = 35,          // empty; answered by kSynced when all input before it has been taken
  kInputOnly = 36,     // empty; the client will read no more output: send it none, wait for none
  // Answers. kData, kEnd and kTreeEntry flow both ways.
  kPong = 50,
  kStarted = 51,
  kOutput = 52,
  kExit = 53,
  kProcess = 54,
  kFile = 55,
  kData = 56,  // raw bytes
  kEnd = 57,   // empty; after kMatch a SearchEnd
  kDone = 58,  // empty
  kError = 59,
  kWatching = 60,  // empty: from here on no change is missed
  kFileEvent = 61,
  kTreeEntry = 62,
  kTreeDone = 63,
  kMatch = 64,
  kSynced = 65,  // empty
  kChange = 66,
  kImage = 67,  // the description, for a guest alone
  kSocketHolder = 68,
};

struct FrameHeader {
  std::uint32_t payload_bytes = 0;
  Kind kind = Kind::kError;
};

// Limits that both sides keep to. They make every answer fit into one frame.
inline constexpr std::size_t kMaxUserBytes = 256;
inline constexpr std::size_t kMaxArguments = 8192;
inline constexpr std::size_t kMaxArgvBytes = std::size_t{192} * 1024;  // with 4 bytes per argument
inline constexpr std::size_t kMaxVariables = 4096;
inline constexpr std::uint32_t kMaxJournalBytes = 64 * 1024 * 1024;
inline constexpr std::uint64_t kMaxTimeoutMs = 366ULL * 24 * 3600 * 1000;
inline constexpr std::uint32_t kMaxPtyCells = 10000;  // rows, and columns
inline constexpr std::size_t kMaxErrorBytes = 4096;

// REQUIRES: header.size() == kFrameHeaderBytes. Fails on an oversized payload.
Result<FrameHeader> decode_header(std::string_view header);
std::string encode_frame(Kind kind, std::string_view payload = {});
// The first bytes of a frame whose payload is sent apart.
std::string encode_header(Kind kind, std::size_t payload_bytes);

struct PtySize {
  std::uint32_t rows = 24;
  std::uint32_t columns = 80;
};

struct SpawnRequest {
  std::string process_id;         // [a-zA-Z0-9._-]{1,64}, not in use
  std::vector<std::string> argv;  // at least one; argv[0] is looked up in PATH of `env`
  std::vector<std::string> env;   // "K=V"; HOME, USER, LOGNAME, SHELL, PATH are added when absent
  std::string cwd;                // empty: the user's home, or / when that is missing
  std::string user;               // name, uid or uid:gid; empty: root
  bool stdin_open = false;        // a pipe; otherwise /dev/null
  std::optional<PtySize> pty;     // stdin, stdout and stderr are one terminal
  std::uint64_t timeout_ms = 0;   // 0: none. Kills the whole process group, exit says timed_out
  bool keep = false;
  std::uint32_t journal_bytes = kDefaultJournalBytes;
  bool channel = false;  // descriptor 3 of the child is a stream socket: kChannelInput, kChannel
  // 0: none. No frame from any client and no output for that long kills the whole process group,
  // exit says idle_timed_out. Output that waits for a slow client is not silence.
  std::uint64_t idle_timeout_ms = 0;
  // With `pty`: for a program that is driven and not watched. No echo, no line editing (and so no
  // limit on the length of a line), newlines as the program writes them.
  bool pty_driven = false;
  std::string label;  // whatever the client wants to find again in the table
  // With `keep`: so long after its end the process leaves the table by itself; 0: never.
  std::uint64_t forget_after_ms = 0;
};

// Whether guests of this machine know kCapture and kRevive.
#ifdef __x86_64__
inline constexpr bool kWarmForks = true;
#else
inline constexpr bool kWarmForks = false;
#endif
inline constexpr std::size_t kMaxDescriptionBytes = std::size_t{160} * 1024;
inline constexpr std::uint32_t kMaxChannelNumber = 65535;

struct CaptureRequest {
  std::string process_id;
  std::uint32_t pid = 0;        // of the copy, as the sandbox sees it
  std::uint32_t channel = 0;    // the number that its channel has
  std::uint64_t max_bytes = 0;  // of its memory; at least 1
  // What is made of it has memory of its own from the beginning, not the image's until it writes.
  // Then it can be dumped like any other process (docs/memory-dump.md).
  bool own_memory = false;
};

struct ReviveRequest {
  // As the process was spawned. Program, directory and environment come from the image; no
  // terminal, no standard input.
  SpawnRequest spawn;
  std::string description;
};

struct AttachRequest {
  std::string process_id;
  std::uint64_t from_offset = 0;
  bool describe = false;  // first kProcess: what it is, as it is at this moment
};

enum class Stream : std::uint8_t { kStdout = 1, kStderr = 2, kPty = 3, kChannel = 4 };

struct OutputHeader {
  Stream stream = Stream::kStdout;
  std::uint64_t offset = 0;  // of the first byte, over all streams of the process
};
struct Output {
  OutputHeader header;
  std::string_view bytes;  // borrows from the payload
};

struct ExitStatus {
  bool exited = false;  // true: exit_code is meaningful; false: signal is
  std::uint32_t exit_code = 0;
  std::uint32_t signal = 0;
  bool timed_out = false;
  bool idle_timed_out = false;
};

struct ProcessInfo {
  std::string process_id;
  std::uint32_t pid = 0;
  std::vector<std::string> argv;
  std::string cwd;
  std::string user;
  std::int64_t started_unix_ms = 0;
  bool keep = false;
  bool pty = false;
  bool running = false;
  ExitStatus exit;  // when not running
  std::uint64_t output_bytes = 0;
  std::uint64_t journal_first_offset = 0;  // the oldest output byte that is still kept
  bool has_channel = false;
  std::string label;
};

// Whom programs in the sandbox shall trust besides the authorities they know.
struct TrustRequest {
  std::string certificate_pem;  // empty: nobody any more
  std::string subject_hash;     // 8 hexadecimal digits, as OpenSSL names files by it
  std::string user;             // whose own stores are served besides root's; may be empty
};
inline constexpr std::size_t kMaxTrustPemBytes = std::size_t{16} * 1024;

struct SignalProcessRequest {
  std::string process_id;
  std::uint32_t signal = 0;  // 1..64, to the process group
};

// Who has a socket with this local port, of its connections first.
struct FindSocketRequest {
  bool datagrams = false;
  std::uint16_t port = 0;
};
struct SocketHolder {
  std::uint32_t pid = 0;   // 0: nobody is known
  std::string program;     // its name
  std::string process_id;  // of the table's process that started it; may be empty
};
inline constexpr std::size_t kMaxProgramBytes = 64;

struct Pong {
  std::uint32_t protocol_version = kProtocolVersion;
  std::uint32_t process_count = 0;
};

// What the decoders check, for a caller that wants to refuse before it connects: limits, charset
// of ids, no NUL bytes, absolute paths, and that the encoded request fits into one frame.
Result<> validate(const SpawnRequest& request);
Result<> validate_path(std::string_view path);
Result<> validate_user_path(std::string_view path);  // absolute, or in the home directory
Result<> validate_process_id(std::string_view process_id);
Result<> validate_tree_path(std::string_view path);
Result<> validate(const SearchRequest& request);

// encode() gives the payload; decode_*() reads one.
std::string encode(const SpawnRequest& request);
std::string encode(const CaptureRequest& request);
std::string encode(const ReviveRequest& request);
std::string encode(const AttachRequest& request);
std::string encode(const SignalProcessRequest& request);
std::string encode(const TrustRequest& request);
std::string encode(const PathRequest& request);
std::string encode(const ReadFileRequest& request);
std::string encode(const WriteFileRequest& request);
std::string encode(const MakeDirectoryRequest& request);
std::string encode(const MoveRequest& request);
std::string encode(const RemoveRequest& request);
std::string encode(const ChangeModeRequest& request);
std::string encode(const SyncFileRequest& request);
std::string encode(const WatchRequest& request);
std::string encode(const FileEvent& event);
std::string encode(const TreeEntry& entry);
std::string encode(const TreeDone& done);
std::string encode(const DiffRequest& request);
std::string encode(const Change& change);
std::string encode(const SearchRequest& request);
std::string encode(const Match& match);
std::string encode(const SearchEnd& end);
std::string encode(const PtySize& size);
std::string encode(const ExitStatus& status);
std::string encode(const ProcessInfo& info);
std::string encode(const FileInfo& info);
std::string encode(const FindSocketRequest& request);
std::string encode(const SocketHolder& holder);
std::string encode(const Pong& pong);
std::string encode(const Error& error);
std::string encode_id(std::string_view process_id);  // kRemoveProcess, kGetProcess
std::string encode_number(std::uint32_t value);      // kStarted (pid), kSignal
std::string encode_output(OutputHeader header, std::string_view bytes);

Result<SpawnRequest> decode_spawn(std::string_view payload);
Result<CaptureRequest> decode_capture(std::string_view payload);
Result<ReviveRequest> decode_revive(std::string_view payload);
Result<AttachRequest> decode_attach(std::string_view payload);
Result<SignalProcessRequest> decode_signal_process(std::string_view payload);
Result<PathRequest> decode_path(std::string_view payload);
Result<ReadFileRequest> decode_read_file(std::string_view payload);
Result<WriteFileRequest> decode_write_file(std::string_view payload);
Result<MakeDirectoryRequest> decode_make_directory(std::string_view payload);
Result<MoveRequest> decode_move(std::string_view payload);
Result<RemoveRequest> decode_remove(std::string_view payload);
Result<ChangeModeRequest> decode_change_mode(std::string_view payload);
Result<SyncFileRequest> decode_sync_file(std::string_view payload);
Result<WatchRequest> decode_watch(std::string_view payload);
Result<FileEvent> decode_file_event(std::string_view payload);
Result<TreeEntry> decode_tree_entry(std::string_view payload);
Result<TreeDone> decode_tree_done(std::string_view payload);
Result<TrustRequest> decode_trust(std::string_view payload);
Result<DiffRequest> decode_diff(std::string_view payload);
Result<Change> decode_change(std::string_view payload);
Result<SearchRequest> decode_search(std::string_view payload);
Result<Match> decode_match(std::string_view payload);
Result<SearchEnd> decode_search_end(std::string_view payload);
Result<PtySize> decode_pty_size(std::string_view payload);
Result<ExitStatus> decode_exit(std::string_view payload);
Result<ProcessInfo> decode_process(std::string_view payload);
Result<FileInfo> decode_file(std::string_view payload);
Result<FindSocketRequest> decode_find_socket(std::string_view payload);
Result<SocketHolder> decode_socket_holder(std::string_view payload);
Result<Pong> decode_pong(std::string_view payload);
// The Error that a kError frame carries; a malformed one becomes an Error that says so.
Error decode_error(std::string_view payload);
Result<std::string> decode_id(std::string_view payload);
Result<std::uint32_t> decode_number(std::string_view payload);
Result<Output> decode_output(std::string_view payload);

}  // namespace atl::guest
