// Encoding and decoding of the guest protocol. Each pair of functions below is the whole format
// of one message; decoding reads straight through, checks ByteReader::finish() once and then the
// limits. Nothing decoded is trusted further than these checks say. One file although it is long:
// the host links exactly this file, and a format is easier to review in one place.
#include "guest/wire.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/strings.h"

namespace atl::guest {
namespace {

Result<> refuse(std::string message, std::string reason = "malformed") {
  return fail(Code::kInvalidArgument, std::move(message), std::move(reason));
}

bool has_nul(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

Result<> check_user(std::string_view user) {
  if (user.size() > kMaxUserBytes || has_nul(user)) {
    return refuse("user is too long or has a NUL byte", "bad_user");
  }
  return {};
}

Result<> check_mode(std::uint32_t mode) {
  if (mode > 07777) {
    return refuse("mode has more than the permission bits (0 to 07777)", "bad_mode");
  }
  return {};
}

Result<> check_signal(std::uint32_t signal) {
  if (signal < 1 || signal > 64) {
    return refuse(concat("signal ", signal, " is not between 1 and 64"), "bad_signal");
  }
  return {};
}

Result<> check_pty(const PtySize& size) {
  if (size.rows < 1 || size.rows > kMaxPtyCells || size.columns < 1 ||
      size.columns > kMaxPtyCells) {
    return refuse(concat("terminal size must be 1 to ", kMaxPtyCells, " rows and columns"),
                  "bad_terminal_size");
  }
  return {};
}

Result<> check_argv(const std::vector<std::string>& argv) {
  if (argv.empty() || argv[0].empty()) {
    return refuse("argv needs a program name", "bad_argv");
  }
  if (argv.size() > kMaxArguments) {
    return refuse(concat("argv has more than ", kMaxArguments, " arguments"), "argv_too_long");
  }
  std::size_t total_bytes = 0;
  for (const auto& argument : argv) {
    total_bytes += argument.size() + 4;
    if (has_nul(argument)) {
      return refuse("an argument has a NUL byte", "bad_argv");
    }
  }
  if (total_bytes > kMaxArgvBytes) {
    return refuse(concat("argv is longer than ", kMaxArgvBytes, " bytes"), "argv_too_long");
  }
  return {};
}

Result<> check_env(const std::vector<std::string>& env) {
  if (env.size() > kMaxVariables) {
    return refuse(concat("env has more than ", kMaxVariables, " variables"), "env_too_long");
  }
  for (const auto& variable : env) {
    const auto equals = variable.find('=');
    if (equals == 0 || equals == std::string::npos || has_nul(variable)) {
      return refuse("each env entry must be NAME=VALUE without NUL bytes", "bad_env");
    }
  }
  return {};
}

Result<> check_spawn(const SpawnRequest& request) {
  TRY_DO(validate_process_id(request.process_id));
  TRY_DO(check_argv(request.argv));
  TRY_DO(check_env(request.env));
  TRY_DO(check_user(request.user));
  if (!request.cwd.empty()) {
    TRY_DO(validate_path(request.cwd));
  }
  if (request.pty) {
    TRY_DO(check_pty(*request.pty));
  }
  if (request.timeout_ms > kMaxTimeoutMs) {
    return refuse(concat("timeout is longer than ", kMaxTimeoutMs, " ms"), "bad_timeout");
  }
  if (request.idle_timeout_ms > kMaxTimeoutMs) {
    return refuse(concat("idle timeout is longer than ", kMaxTimeoutMs, " ms"), "bad_timeout");
  }
  if (request.journal_bytes > kMaxJournalBytes) {
    return refuse(concat("journal is larger than ", kMaxJournalBytes, " bytes"), "bad_journal");
  }
  if (request.label.size() > kMaxLabelBytes) {
    return refuse(concat("label is longer than ", kMaxLabelBytes, " bytes"), "bad_label");
  }
  return {};
}

Result<> check_file_request(std::string_view path, std::string_view user) {
  TRY_DO(validate_path(path));
  return check_user(user);
}

void put_exit(ByteWriter& out, const ExitStatus& status) {
  out.boolean(status.exited).u32(status.exit_code).u32(status.signal).boolean(status.timed_out);
  out.boolean(status.idle_timed_out);
}

ExitStatus take_exit(ByteReader& in) {
  ExitStatus status;
  status.exited = in.boolean();
  status.exit_code = in.u32();
  status.signal = in.u32();
  status.timed_out = in.boolean();
  status.idle_timed_out = in.boolean();
  return status;
}

Result<> check_exit(const ExitStatus& status) {
  if (status.exit_code > 255 || status.signal > 127) {
    return refuse("exit status is out of range");
  }
  return {};
}

// The path of a result: absolute, below a path that was asked for.
bool is_result_path(std::string_view path) {
  return path.size() <= kMaxResultPathBytes && path.starts_with('/') && !has_nul(path);
}

Result<> check_pattern(std::string_view pattern, std::string reason) {
  if (pattern.size() > kMaxPatternBytes || has_nul(pattern)) {
    return refuse(
        concat("a pattern must have at most ", kMaxPatternBytes, " bytes and no NUL byte"),
        std::move(reason));
  }
  return {};
}

Result<> check_globs(const std::vector<std::string>& globs) {
  if (globs.size() > kMaxGlobs) {
    return refuse(concat("at most ", kMaxGlobs, " patterns are possible"), "bad_glob");
  }
  std::size_t bytes = 0;
  for (const std::string& glob : globs) {
    TRY_DO(check_pattern(glob, "bad_glob"));
    bytes += glob.size();
  }
  if (bytes > kMaxGlobListBytes) {
    return refuse(concat("patterns may have ", kMaxGlobListBytes, " bytes together"), "bad_glob");
  }
  return {};
}

Result<> check_search(const SearchRequest& request) {
  TRY_DO(check_file_request(request.path, request.user));
  TRY_DO(check_globs(request.included));
  TRY_DO(check_globs(request.excluded));
  if (request.context_lines > kMaxContextLines) {
    return refuse(concat("at most ", kMaxContextLines, " lines of context are possible"),
                  "bad_limit");
  }
  TRY_DO(check_pattern(request.name_glob, "bad_glob"));
  TRY_DO(check_pattern(request.content_regex, "bad_regex"));
  if (request.max_results < 1 || request.max_results > kMaxSearchResults) {
    return refuse(concat("max_results must be 1 to ", kMaxSearchResults), "bad_limit");
  }
  if (request.max_file_bytes < 1 || request.max_file_bytes > kMaxSearchFileBytes) {
    return refuse(concat("max_file_bytes must be 1 to ", kMaxSearchFileBytes), "bad_limit");
  }
  return {};
}

Result<> check_tree_entry(const TreeEntry& entry) {
  TRY_DO(validate_tree_path(entry.path));
  TRY_DO(check_mode(entry.mode));
  const bool file = entry.type == FileType::kFile;
  const bool symlink = entry.type == FileType::kSymlink;
  const bool hardlink = entry.type == FileType::kHardlink;
  if (!file && !symlink && !hardlink && entry.type != FileType::kDirectory) {
    return refuse("a tree has only files, directories and links");
  }
  if (!file && entry.size != 0) {
    return refuse("only a file has a size in a tree");
  }
  if (entry.size > static_cast<std::uint64_t>(INT64_MAX)) {
    return refuse("the size of a file is out of range");
  }
  if (hardlink) {
    return validate_tree_path(entry.link_target);
  }
  if (symlink == entry.link_target.empty() || entry.link_target.size() > kMaxPathBytes ||
      has_nul(entry.link_target)) {
    return refuse("the target of a symlink is missing or malformed");
  }
  return {};
}

}  // namespace

Result<> validate_tree_path(std::string_view path) {
  const auto escapes = [](std::string_view why) {
    return refuse(concat("a path in a tree ", why), "path_escapes");
  };
  if (path.empty() || path.size() > kMaxPathBytes || has_nul(path)) {
    return escapes("is empty, too long or has a NUL byte");
  }
  std::size_t depth = 0;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    if (name.empty() || name == "." || name == "..") {
      return escapes("must be relative, without empty, \".\" and \"..\" components");
    }
    if (name.size() > kMaxNameBytes || ++depth > kMaxTreeDepth) {
      return escapes(
          concat("may have ", kMaxTreeDepth, " components of ", kMaxNameBytes, " bytes each"));
    }
    begin = end + 1;
  }
  return {};
}

Result<> validate(const SearchRequest& request) {
  return check_search(request);
}

Result<> validate_process_id(std::string_view process_id) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  bool good = !process_id.empty() && process_id.size() <= kMaxProcessIdBytes;
  for (const char c : process_id) {
    good = good && allowed(c);
  }
  if (!good) {
    return refuse("process id must be 1 to 64 of a-z A-Z 0-9 . _ -", "bad_process_id");
  }
  return {};
}

Result<> validate_path(std::string_view path) {
  if (path.empty() || path[0] != '/') {
    return refuse("path must be absolute (start with /)", "path_not_absolute");
  }
  if (path.size() > kMaxPathBytes) {
    return refuse(concat("path is longer than ", kMaxPathBytes, " bytes"), "path_too_long");
  }
  if (has_nul(path)) {
    return refuse("path has a NUL byte", "bad_path");
  }
  return {};
}

Result<> validate(const SpawnRequest& request) {
  TRY_DO(check_spawn(request));
  if (encode(request).size() > kMaxPayloadBytes) {
    return refuse(
        concat("arguments and environment together are longer than ", kMaxPayloadBytes, " bytes"),
        "env_too_long");
  }
  return {};
}

Result<FrameHeader> decode_header(std::string_view header) {
  CHECK(header.size() == kFrameHeaderBytes);
  ByteReader in{header};
  const std::uint32_t payload_bytes = in.u32();
  const auto kind = static_cast<Kind>(in.u8());
  if (payload_bytes > kMaxPayloadBytes) {
    return fail(
        Code::kInvalidArgument,
        concat("frame of ", payload_bytes, " bytes is over the limit of ", kMaxPayloadBytes),
        "malformed");
  }
  return FrameHeader{payload_bytes, kind};
}

std::string encode_header(Kind kind, std::size_t payload_bytes) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(payload_bytes)).u8(static_cast<std::uint8_t>(kind));
  return std::move(out).bytes();
}

std::string encode_frame(Kind kind, std::string_view payload) {
  std::string frame = encode_header(kind, payload.size());
  frame += payload;
  return frame;
}

std::string encode(const SpawnRequest& request) {
  ByteWriter out;
  out.string(request.process_id).strings(request.argv).strings(request.env);
  out.string(request.cwd).string(request.user).boolean(request.stdin_open);
  out.boolean(request.pty.has_value());
  if (request.pty) {
    out.u32(request.pty->rows).u32(request.pty->columns);
  }
  out.u64(request.timeout_ms).boolean(request.keep).u32(request.journal_bytes);
  out.boolean(request.channel).u64(request.idle_timeout_ms);
  out.boolean(request.pty_driven).string(request.label);
  return std::move(out).bytes();
}

Result<SpawnRequest> decode_spawn(std::string_view payload) {
  ByteReader in{payload};
  SpawnRequest request;
  request.process_id = in.string();
  request.argv = in.strings();
  request.env = in.strings();
  request.cwd = in.string();
  request.user = in.string();
  request.stdin_open = in.boolean();
  if (in.boolean()) {
    request.pty.emplace();
    request.pty->rows = in.u32();
    request.pty->columns = in.u32();
  }
  request.timeout_ms = in.u64();
  request.keep = in.boolean();
  request.journal_bytes = in.u32();
  request.channel = in.boolean();
  request.idle_timeout_ms = in.u64();
  request.pty_driven = in.boolean();
  request.label = in.string();
  TRY_DO(in.finish());
  TRY_DO(check_spawn(request));
  return request;
}

std::string encode(const AttachRequest& request) {
  return ByteWriter{}
      .string(request.process_id)
      .u64(request.from_offset)
      .boolean(request.describe)
      .bytes();
}

Result<AttachRequest> decode_attach(std::string_view payload) {
  ByteReader in{payload};
  AttachRequest request;
  request.process_id = in.string();
  request.from_offset = in.u64();
  request.describe = in.boolean();
  TRY_DO(in.finish());
  TRY_DO(validate_process_id(request.process_id));
  return request;
}

std::string encode(const SignalProcessRequest& request) {
  return ByteWriter{}.string(request.process_id).u32(request.signal).bytes();
}

Result<SignalProcessRequest> decode_signal_process(std::string_view payload) {
  ByteReader in{payload};
  SignalProcessRequest request;
  request.process_id = in.string();
  request.signal = in.u32();
  TRY_DO(in.finish());
  TRY_DO(validate_process_id(request.process_id));
  TRY_DO(check_signal(request.signal));
  return request;
}

std::string encode(const PathRequest& request) {
  return ByteWriter{}.string(request.path).string(request.user).bytes();
}

Result<PathRequest> decode_path(std::string_view payload) {
  ByteReader in{payload};
  PathRequest request;
  request.path = in.string();
  request.user = in.string();
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  return request;
}

std::string encode(const ReadFileRequest& request) {
  ByteWriter out;
  out.string(request.path).string(request.user).u64(request.offset).u64(request.length);
  return std::move(out).bytes();
}

Result<ReadFileRequest> decode_read_file(std::string_view payload) {
  ByteReader in{payload};
  ReadFileRequest request;
  request.path = in.string();
  request.user = in.string();
  request.offset = in.u64();
  request.length = in.u64();
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  return request;
}

std::string encode(const WriteFileRequest& request) {
  ByteWriter out;
  out.string(request.path).string(request.user).u32(request.mode).boolean(request.make_parents);
  out.boolean(request.only_new).boolean(request.only_version.has_value());
  if (const auto& version = request.only_version) {
    out.u64(version->inode).u64(version->size).i64(version->changed_unix_ns);
  }
  return std::move(out).bytes();
}

Result<WriteFileRequest> decode_write_file(std::string_view payload) {
  ByteReader in{payload};
  WriteFileRequest request;
  request.path = in.string();
  request.user = in.string();
  request.mode = in.u32();
  request.make_parents = in.boolean();
  request.only_new = in.boolean();
  if (in.boolean()) {
    FileVersion version;
    version.inode = in.u64();
    version.size = in.u64();
    version.changed_unix_ns = in.i64();
    request.only_version = version;
  }
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  TRY_DO(check_mode(request.mode));
  return request;
}

std::string encode(const MakeDirectoryRequest& request) {
  ByteWriter out;
  out.string(request.path).string(request.user).u32(request.mode).boolean(request.make_parents);
  return std::move(out).bytes();
}

Result<MakeDirectoryRequest> decode_make_directory(std::string_view payload) {
  ByteReader in{payload};
  MakeDirectoryRequest request;
  request.path = in.string();
  request.user = in.string();
  request.mode = in.u32();
  request.make_parents = in.boolean();
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  TRY_DO(check_mode(request.mode));
  return request;
}

std::string encode(const MoveRequest& request) {
  ByteWriter out;
  out.string(request.source).string(request.destination).string(request.user);
  out.boolean(request.make_parents);
  return std::move(out).bytes();
}

Result<MoveRequest> decode_move(std::string_view payload) {
  ByteReader in{payload};
  MoveRequest request;
  request.source = in.string();
  request.destination = in.string();
  request.user = in.string();
  request.make_parents = in.boolean();
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.source, request.user));
  TRY_DO(validate_path(request.destination));
  return request;
}

std::string encode(const RemoveRequest& request) {
  ByteWriter out;
  out.string(request.path).string(request.user);
  out.boolean(request.recursive).boolean(request.missing_ok);
  return std::move(out).bytes();
}

Result<RemoveRequest> decode_remove(std::string_view payload) {
  ByteReader in{payload};
  RemoveRequest request;
  request.path = in.string();
  request.user = in.string();
  request.recursive = in.boolean();
  request.missing_ok = in.boolean();
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  return request;
}

std::string encode(const ChangeModeRequest& request) {
  return ByteWriter{}.string(request.path).string(request.user).u32(request.mode).bytes();
}

Result<ChangeModeRequest> decode_change_mode(std::string_view payload) {
  ByteReader in{payload};
  ChangeModeRequest request;
  request.path = in.string();
  request.user = in.string();
  request.mode = in.u32();
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  TRY_DO(check_mode(request.mode));
  return request;
}

std::string encode(const WatchRequest& request) {
  ByteWriter out;
  out.string(request.path).string(request.user).boolean(request.recursive);
  return std::move(out).bytes();
}

Result<WatchRequest> decode_watch(std::string_view payload) {
  ByteReader in{payload};
  WatchRequest request;
  request.path = in.string();
  request.user = in.string();
  request.recursive = in.boolean();
  TRY_DO(in.finish());
  TRY_DO(check_file_request(request.path, request.user));
  return request;
}

std::string encode(const FileEvent& event) {
  return ByteWriter{}.u8(static_cast<std::uint8_t>(event.event)).string(event.path).bytes();
}

Result<FileEvent> decode_file_event(std::string_view payload) {
  ByteReader in{payload};
  const auto type = in.u8();
  FileEvent event;
  event.path = in.string();
  TRY_DO(in.finish());
  if (type < 1 || type > 6 || !is_result_path(event.path)) {
    return fail(Code::kInvalidArgument, "file event is malformed", "malformed");
  }
  event.event = static_cast<FileEventType>(type);
  return event;
}

std::string encode(const TreeEntry& entry) {
  ByteWriter out;
  out.string(entry.path).u8(static_cast<std::uint8_t>(entry.type)).u32(entry.mode);
  out.u64(entry.size).i64(entry.modified_unix_ns).u32(entry.uid).u32(entry.gid);
  out.string(entry.link_target);
  return std::move(out).bytes();
}

Result<TreeEntry> decode_tree_entry(std::string_view payload) {
  ByteReader in{payload};
  TreeEntry entry;
  entry.path = in.string();
  entry.type = static_cast<FileType>(in.u8());
  entry.mode = in.u32();
  entry.size = in.u64();
  entry.modified_unix_ns = in.i64();
  entry.uid = in.u32();
  entry.gid = in.u32();
  entry.link_target = in.string();
  TRY_DO(in.finish());
  TRY_DO(check_tree_entry(entry));
  return entry;
}

std::string encode(const TreeDone& done) {
  ByteWriter out;
  out.u64(done.files).u64(done.directories).u64(done.symlinks).u64(done.bytes);
  return std::move(out).bytes();
}

Result<TreeDone> decode_tree_done(std::string_view payload) {
  ByteReader in{payload};
  TreeDone done;
  done.files = in.u64();
  done.directories = in.u64();
  done.symlinks = in.u64();
  done.bytes = in.u64();
  TRY_DO(in.finish());
  return done;
}

std::string encode(const SearchRequest& request) {
  ByteWriter out;
  out.string(request.path).string(request.user).string(request.name_glob);
  out.string(request.content_regex).boolean(request.ignore_case);
  out.u32(request.max_results).u64(request.max_file_bytes);
  out.strings(request.included).strings(request.excluded).u32(request.context_lines);
  return std::move(out).bytes();
}

Result<SearchRequest> decode_search(std::string_view payload) {
  ByteReader in{payload};
  SearchRequest request;
  request.path = in.string();
  request.user = in.string();
  request.name_glob = in.string();
  request.content_regex = in.string();
  request.ignore_case = in.boolean();
  request.max_results = in.u32();
  request.max_file_bytes = in.u64();
  request.included = in.strings();
  request.excluded = in.strings();
  request.context_lines = in.u32();
  TRY_DO(in.finish());
  TRY_DO(check_search(request));
  return request;
}

std::string encode(const Match& match) {
  ByteWriter out;
  out.string(match.path).u8(static_cast<std::uint8_t>(match.type)).u64(match.size);
  out.u64(match.line_number).string(match.line_text).boolean(match.context);
  return std::move(out).bytes();
}

Result<Match> decode_match(std::string_view payload) {
  ByteReader in{payload};
  Match match;
  match.path = in.string();
  const auto type = in.u8();
  match.size = in.u64();
  match.line_number = in.u64();
  match.line_text = in.string();
  match.context = in.boolean();
  TRY_DO(in.finish());
  if (type < 1 || type > 4 || !is_result_path(match.path) ||
      match.line_text.size() > kMaxLineBytes) {
    return fail(Code::kInvalidArgument, "search result is malformed", "malformed");
  }
  match.type = static_cast<FileType>(type);
  return match;
}

std::string encode(const SearchEnd& end) {
  return ByteWriter{}.boolean(end.truncated).u64(end.skipped_files).bytes();
}

Result<SearchEnd> decode_search_end(std::string_view payload) {
  ByteReader in{payload};
  SearchEnd end;
  end.truncated = in.boolean();
  end.skipped_files = in.u64();
  TRY_DO(in.finish());
  return end;
}

std::string encode(const PtySize& size) {
  return ByteWriter{}.u32(size.rows).u32(size.columns).bytes();
}

Result<PtySize> decode_pty_size(std::string_view payload) {
  ByteReader in{payload};
  PtySize size;
  size.rows = in.u32();
  size.columns = in.u32();
  TRY_DO(in.finish());
  TRY_DO(check_pty(size));
  return size;
}

std::string encode(const ExitStatus& status) {
  ByteWriter out;
  put_exit(out, status);
  return std::move(out).bytes();
}

Result<ExitStatus> decode_exit(std::string_view payload) {
  ByteReader in{payload};
  const ExitStatus status = take_exit(in);
  TRY_DO(in.finish());
  TRY_DO(check_exit(status));
  return status;
}

std::string encode(const ProcessInfo& info) {
  ByteWriter out;
  out.string(info.process_id).u32(info.pid).strings(info.argv).string(info.cwd);
  out.string(info.user).i64(info.started_unix_ms);
  out.boolean(info.keep).boolean(info.pty).boolean(info.running);
  put_exit(out, info.exit);
  out.u64(info.output_bytes).u64(info.journal_first_offset).boolean(info.has_channel);
  out.string(info.label);
  return std::move(out).bytes();
}

Result<ProcessInfo> decode_process(std::string_view payload) {
  ByteReader in{payload};
  ProcessInfo info;
  info.process_id = in.string();
  info.pid = in.u32();
  info.argv = in.strings();
  info.cwd = in.string();
  info.user = in.string();
  info.started_unix_ms = in.i64();
  info.keep = in.boolean();
  info.pty = in.boolean();
  info.running = in.boolean();
  info.exit = take_exit(in);
  info.output_bytes = in.u64();
  info.journal_first_offset = in.u64();
  info.has_channel = in.boolean();
  info.label = in.string();
  TRY_DO(in.finish());
  TRY_DO(validate_process_id(info.process_id));
  TRY_DO(check_argv(info.argv));
  TRY_DO(check_user(info.user));
  TRY_DO(check_exit(info.exit));
  if (info.cwd.size() > kMaxPathBytes || has_nul(info.cwd)) {
    return fail(Code::kInvalidArgument, "working directory is malformed", "malformed");
  }
  if (info.label.size() > kMaxLabelBytes) {
    return fail(Code::kInvalidArgument, "label is malformed", "malformed");
  }
  return info;
}

std::string encode(const FileInfo& info) {
  ByteWriter out;
  out.string(info.name).string(info.path).u8(static_cast<std::uint8_t>(info.type));
  out.u64(info.size).u32(info.mode).u32(info.uid).u32(info.gid).i64(info.modified_unix_ns);
  out.string(info.link_target).u64(info.inode).i64(info.changed_unix_ns);
  return std::move(out).bytes();
}

Result<FileInfo> decode_file(std::string_view payload) {
  ByteReader in{payload};
  FileInfo info;
  info.name = in.string();
  info.path = in.string();
  const auto type = in.u8();
  info.size = in.u64();
  info.mode = in.u32();
  info.uid = in.u32();
  info.gid = in.u32();
  info.modified_unix_ns = in.i64();
  info.link_target = in.string();
  info.inode = in.u64();
  info.changed_unix_ns = in.i64();
  TRY_DO(in.finish());
  if (type < 1 || type > 4 || info.mode > 07777) {
    return fail(Code::kInvalidArgument, "file type or mode is out of range", "malformed");
  }
  info.type = static_cast<FileType>(type);
  const bool name_ok = info.name.size() <= kMaxNameBytes && !has_nul(info.name) &&
                       (info.name == "/" || info.name.find('/') == std::string::npos);
  const bool path_ok = info.path.size() <= kMaxPathBytes + 1 + kMaxNameBytes &&
                       !info.path.empty() && info.path[0] == '/' && !has_nul(info.path);
  if (!name_ok || !path_ok || info.link_target.size() > kMaxPathBytes ||
      has_nul(info.link_target)) {
    return fail(Code::kInvalidArgument, "file name or path is malformed", "malformed");
  }
  return info;
}

std::string encode(const Pong& pong) {
  return ByteWriter{}.u32(pong.protocol_version).u32(pong.process_count).bytes();
}

Result<Pong> decode_pong(std::string_view payload) {
  ByteReader in{payload};
  Pong pong;
  pong.protocol_version = in.u32();
  pong.process_count = in.u32();
  TRY_DO(in.finish());
  return pong;
}

std::string encode(const Error& error) {
  ByteWriter out;
  out.u8(static_cast<std::uint8_t>(error.code));
  out.string(std::string_view{error.message}.substr(0, kMaxErrorBytes));
  out.string(std::string_view{error.reason}.substr(0, kMaxProcessIdBytes));
  return std::move(out).bytes();
}

Error decode_error(std::string_view payload) {
  ByteReader in{payload};
  Error error;
  error.code = code_from_number(in.u8());
  const auto message = in.view();
  const auto reason = in.view();
  if (!in.finish() || message.size() > kMaxErrorBytes || reason.size() > kMaxProcessIdBytes) {
    return Error{Code::kInternal, "the guest sent a malformed error", "malformed"};
  }
  append_printable(error.message, message.empty() ? "no reason given" : to_valid_utf8(message));
  for (const char c : reason) {
    const bool good =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    error.reason += good ? c : '_';
  }
  return error;
}

std::string encode_id(std::string_view process_id) {
  return ByteWriter{}.string(process_id).bytes();
}

Result<std::string> decode_id(std::string_view payload) {
  ByteReader in{payload};
  std::string process_id = in.string();
  TRY_DO(in.finish());
  TRY_DO(validate_process_id(process_id));
  return process_id;
}

std::string encode_number(std::uint32_t value) {
  return ByteWriter{}.u32(value).bytes();
}

Result<std::uint32_t> decode_number(std::string_view payload) {
  ByteReader in{payload};
  const std::uint32_t value = in.u32();
  TRY_DO(in.finish());
  return value;
}

std::string encode_output(OutputHeader header, std::string_view bytes) {
  ByteWriter out;
  out.u8(static_cast<std::uint8_t>(header.stream)).u64(header.offset);
  std::string payload = std::move(out).bytes();
  payload += bytes;
  return payload;
}

Result<Output> decode_output(std::string_view payload) {
  constexpr std::size_t kHeaderBytes = 9;
  ByteReader in{payload.substr(0, kHeaderBytes)};
  const auto stream = in.u8();
  const auto offset = in.u64();
  TRY_DO(in.finish());
  if (stream < 1 || stream > 4) {
    return fail(Code::kInvalidArgument, "unknown output stream", "malformed");
  }
  return Output{{static_cast<Stream>(stream), offset}, payload.substr(kHeaderBytes)};
}

}  // namespace atl::guest
