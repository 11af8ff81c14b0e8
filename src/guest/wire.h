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
//   kResize kAttach            kStarted, kOutput*, kExit                   kStdin, kStdinEnd,
//   kSignal, kResize kListProcesses     kProcess*, kEnd kSignalProcess     kDone kRemoveProcess
//   kDone (the process is gone) kStat              kFile kListDirectory     kFile*, kEnd kReadFile
//   kFile, kData*, kEnd kWriteFile         kFile (after the client's kEnd)             kData*, kEnd
//   kMakeDirectory, kMove, kRemove, kChangeMode   kDone
//
// Processes. A process has a caller-chosen id. With `keep` it outlives the connection and stays
// in the guest's table, with its exit status and journal, until kRemoveProcess; without, closing
// the connection kills its process group and forgets it. The journal keeps the newest
// `journal_bytes` of output in order; offsets count all output bytes of the process from its
// start, so a reader sees a gap if it attached too late. A connected reader is never dropped: when
// it is slow, the guest stops reading the process's pipes.
//
// Files. Paths are absolute and resolved inside the sandbox by a child that has the caller's
// identity (`user`), so ordinary permissions apply and the host never follows a guest path.
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

namespace atl::guest {

inline constexpr std::uint32_t kProtocolVersion = 1;
inline constexpr std::size_t kFrameHeaderBytes = 5;
inline constexpr std::uint32_t kMaxPayloadBytes = 256 * 1024;
inline constexpr std::uint32_t kDefaultJournalBytes = 4 * 1024 * 1024;
inline constexpr std::size_t kMaxProcessIdBytes = 64;

enum class Kind : std::uint8_t {
  // Requests.
  kPing = 1,
  kSpawn = 2,
  kAttach = 3,
  kListProcesses = 4,
  kSignalProcess = 5,
  kRemoveProcess = 6,
  kStat = 10,
  kListDirectory = 11,
  kReadFile = 12,
  kWriteFile = 13,
  kMakeDirectory = 14,
  kMove = 15,
  kRemove = 16,
  kChangeMode = 17,
  // Client frames inside an operation.
  kStdin = 30,     // raw bytes
  kStdinEnd = 31,  // empty
  kSignal = 32,    // u32 signal number
  kResize = 33,    // u32 rows, u32 columns
  // Answers. kData and kEnd flow both ways.
  kPong = 50,
  kStarted = 51,
  kOutput = 52,
  kExit = 53,
  kProcess = 54,
  kFile = 55,
  kData = 56,  // raw bytes
  kEnd = 57,   // empty
  kDone = 58,  // empty
  kError = 59,
};

struct FrameHeader {
  std::uint32_t payload_bytes = 0;
  Kind kind = Kind::kError;
};

// Limits that both sides keep to. They make every answer fit into one frame.
inline constexpr std::size_t kMaxPathBytes = 4096;
inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxUserBytes = 256;
inline constexpr std::size_t kMaxArguments = 8192;
inline constexpr std::size_t kMaxArgvBytes = 192 * 1024;  // with 4 bytes per argument
inline constexpr std::size_t kMaxVariables = 4096;
inline constexpr std::uint32_t kMaxJournalBytes = 64 * 1024 * 1024;
inline constexpr std::uint64_t kMaxTimeoutMs = 366ULL * 24 * 3600 * 1000;
inline constexpr std::uint32_t kMaxPtyCells = 10000;  // rows, and columns
inline constexpr std::size_t kMaxErrorBytes = 4096;

// REQUIRES: header.size() == kFrameHeaderBytes. Fails on an oversized payload.
Result<FrameHeader> decode_header(std::string_view header);
std::string encode_frame(Kind kind, std::string_view payload = {});

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
};

struct AttachRequest {
  std::string process_id;
  std::uint64_t from_offset = 0;
};

enum class Stream : std::uint8_t { kStdout = 1, kStderr = 2, kPty = 3 };

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
};

struct SignalProcessRequest {
  std::string process_id;
  std::uint32_t signal = 0;  // 1..64, to the process group
};

enum class FileType : std::uint8_t { kFile = 1, kDirectory = 2, kSymlink = 3, kOther = 4 };

struct FileInfo {
  std::string name;
  std::string path;
  FileType type = FileType::kFile;
  std::uint64_t size = 0;
  std::uint32_t mode = 0;  // permission bits
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int64_t modified_unix_ns = 0;
  std::string link_target;  // when a symlink
};

struct PathRequest {  // kStat (lstat), kListDirectory
  std::string path;
  std::string user;
};
struct ReadFileRequest {
  std::string path;
  std::string user;
  std::uint64_t offset = 0;
  std::uint64_t length = UINT64_MAX;
};
struct WriteFileRequest {
  std::string path;
  std::string user;
  std::uint32_t mode = 0644;  // of a new file; an existing file keeps its mode
  bool make_parents = true;
};
struct MakeDirectoryRequest {
  std::string path;
  std::string user;
  std::uint32_t mode = 0755;
  bool make_parents = false;  // also: an existing directory is fine
};
struct MoveRequest {
  std::string source;
  std::string destination;
  std::string user;
  bool make_parents = true;
};
struct RemoveRequest {
  std::string path;
  std::string user;
  bool recursive = true;
  bool missing_ok = true;
};
struct ChangeModeRequest {
  std::string path;
  std::string user;
  std::uint32_t mode = 0;
};

struct Pong {
  std::uint32_t protocol_version = kProtocolVersion;
  std::uint32_t process_count = 0;
};

// What the decoders check, for a caller that wants to refuse before it connects: limits, charset
// of ids, no NUL bytes, absolute paths, and that the encoded request fits into one frame.
Result<> validate(const SpawnRequest& request);
Result<> validate_path(std::string_view path);
Result<> validate_process_id(std::string_view process_id);

// encode() gives the payload; decode_*() reads one.
std::string encode(const SpawnRequest& request);
std::string encode(const AttachRequest& request);
std::string encode(const SignalProcessRequest& request);
std::string encode(const PathRequest& request);
std::string encode(const ReadFileRequest& request);
std::string encode(const WriteFileRequest& request);
std::string encode(const MakeDirectoryRequest& request);
std::string encode(const MoveRequest& request);
std::string encode(const RemoveRequest& request);
std::string encode(const ChangeModeRequest& request);
std::string encode(const PtySize& size);
std::string encode(const ExitStatus& status);
std::string encode(const ProcessInfo& info);
std::string encode(const FileInfo& info);
std::string encode(const Pong& pong);
std::string encode(const Error& error);
std::string encode_id(std::string_view process_id);  // kRemoveProcess
std::string encode_number(std::uint32_t value);      // kStarted (pid), kSignal
std::string encode_output(OutputHeader header, std::string_view bytes);

Result<SpawnRequest> decode_spawn(std::string_view payload);
Result<AttachRequest> decode_attach(std::string_view payload);
Result<SignalProcessRequest> decode_signal_process(std::string_view payload);
Result<PathRequest> decode_path(std::string_view payload);
Result<ReadFileRequest> decode_read_file(std::string_view payload);
Result<WriteFileRequest> decode_write_file(std::string_view payload);
Result<MakeDirectoryRequest> decode_make_directory(std::string_view payload);
Result<MoveRequest> decode_move(std::string_view payload);
Result<RemoveRequest> decode_remove(std::string_view payload);
Result<ChangeModeRequest> decode_change_mode(std::string_view payload);
Result<PtySize> decode_pty_size(std::string_view payload);
Result<ExitStatus> decode_exit(std::string_view payload);
Result<ProcessInfo> decode_process(std::string_view payload);
Result<FileInfo> decode_file(std::string_view payload);
Result<Pong> decode_pong(std::string_view payload);
// The Error that a kError frame carries; a malformed one becomes an Error that says so.
Error decode_error(std::string_view payload);
Result<std::string> decode_id(std::string_view payload);
Result<std::uint32_t> decode_number(std::string_view payload);
Result<Output> decode_output(std::string_view payload);

}  // namespace atl::guest
