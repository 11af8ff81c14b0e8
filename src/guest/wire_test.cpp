#include "guest/wire.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "base/bytes.h"

namespace atl::guest {
namespace {

SpawnRequest full_spawn() {
  SpawnRequest request;
  request.process_id = "job-1.a_B";
  request.argv = {"python3", "-c", "print('\xff\xfe')", ""};
  request.env = {"A=1", "EMPTY=", "B==x"};
  request.cwd = "/home/user";
  request.user = "1000:1000";
  request.stdin_open = true;
  request.pty = PtySize{.rows = 40, .columns = 132};
  request.timeout_ms = 123456789;
  request.keep = true;
  request.journal_bytes = 65536;
  request.channel = true;
  request.idle_timeout_ms = 987654321;
  request.pty_driven = true;
  request.label = std::string("l\0\xff", 3);
  return request;
}

ProcessInfo full_process() {
  ProcessInfo info;
  info.process_id = "p";
  info.pid = 77;
  info.argv = {"sh", "-c", "true"};
  info.cwd = "/";
  info.user = "root";
  info.started_unix_ms = -5;
  info.keep = true;
  info.exit = {.exited = true, .exit_code = 3};
  info.output_bytes = 1ULL << 40;
  info.journal_first_offset = 1ULL << 39;
  info.has_channel = true;
  info.label = std::string("l\0\xff", 3);
  return info;
}

FileInfo full_file() {
  FileInfo info;
  info.name = "x\xff";
  info.path = "/a/x\xff";
  info.type = FileType::kSymlink;
  info.size = 9;
  info.mode = 0777;
  info.uid = 1000;
  info.gid = 1001;
  info.modified_unix_ns = 1700000000123456789;
  info.link_target = "../y";
  info.inode = 77;
  info.changed_unix_ns = 1700000000123456790;
  return info;
}

TreeEntry full_entry() {
  TreeEntry entry;
  entry.path = "a/\xff/c";
  entry.type = FileType::kSymlink;
  entry.mode = 0755;
  entry.modified_unix_ns = -1;
  entry.uid = 1;
  entry.gid = 2;
  entry.link_target = "/somewhere";
  entry.attributes = {{"user.a", std::string("\0\xff", 2)}, {"user.b", ""}};
  return entry;
}

Change full_change() {
  return {.change = ChangeType::kChanged,
          .entry = full_entry(),
          .old_type = FileType::kFifo,
          .old_size = 7,
          .old_mode = 04755};
}

SearchRequest full_search() {
  SearchRequest request;
  request.path = "/a";
  request.user = "u";
  request.name_glob = "**/*.py";
  request.content_regex = "a|b+";
  request.ignore_case = true;
  request.max_results = 5;
  request.max_file_bytes = 7;
  request.included = {"*.a", "b/**"};
  request.excluded = {"**/.git"};
  request.context_lines = 2;
  return request;
}

struct Message {
  const char* name;
  std::string payload;
  // Decodes and, when that worked, encodes again; nullopt when decoding failed.
  std::function<std::optional<std::string>(std::string_view)> again;
};

template <class T>
std::optional<std::string> encode_again(const Result<T>& decoded) {
  if (!decoded) {
    return std::nullopt;
  }
  return encode(*decoded);
}

std::vector<Message> all_messages() {
  std::vector<Message> messages;
  const auto add = [&messages](const char* name, std::string payload, auto decode) {
    messages.push_back({name, std::move(payload),
                        [decode](std::string_view bytes) { return encode_again(decode(bytes)); }});
  };
  add("spawn", encode(full_spawn()), decode_spawn);
  add("attach", encode(AttachRequest{"p", 12}), decode_attach);
  add("signal_process", encode(SignalProcessRequest{"p", 15}), decode_signal_process);
  add("path", encode(PathRequest{"/a", "root"}), decode_path);
  add("read", encode(ReadFileRequest{"/a", "u", 1, 2}), decode_read_file);
  add("write", encode(WriteFileRequest{"/a", "u", 0600, false}), decode_write_file);
  add("conditional write",
      encode(WriteFileRequest{"/a", "u", 0600, false, true, FileVersion{1, 2, -3}}),
      decode_write_file);
  add("mkdir", encode(MakeDirectoryRequest{"/a", "u", 0700, true}), decode_make_directory);
  add("move", encode(MoveRequest{"/a", "/b", "u", false}), decode_move);
  add("remove", encode(RemoveRequest{"/a", "u", false, false}), decode_remove);
  add("chmod", encode(ChangeModeRequest{"/a", "u", 0644}), decode_change_mode);
  add("sync", encode(SyncFileRequest{"/a", "u", true}), decode_sync_file);
  add("pty", encode(PtySize{1, 10000}), decode_pty_size);
  add("exit", encode(ExitStatus{.signal = 9, .timed_out = true, .idle_timed_out = true}),
      decode_exit);
  add("process", encode(full_process()), decode_process);
  add("file", encode(full_file()), decode_file);
  add("watch", encode(WatchRequest{"/a", "u", true}), decode_watch);
  add("file_event", encode(FileEvent{FileEventType::kRename, "/a/\xff"}), decode_file_event);
  add("tree_entry", encode(full_entry()), decode_tree_entry);
  add("diff", encode(DiffRequest{.from = {"/a"}, .to = {"/b", "/a"}, .contents = true}),
      decode_diff);
  add("change", encode(full_change()), decode_change);
  add("tree_done", encode(TreeDone{1, 2, 3, 1ULL << 50}), decode_tree_done);
  add("search", encode(full_search()), decode_search);
  add("match", encode(Match{"/a", FileType::kFile, 9, 4, std::string("\0\xff", 2), true}),
      decode_match);
  add("search_end", encode(SearchEnd{true, 6}), decode_search_end);
  add("pong", encode(Pong{1, 3}), decode_pong);
  messages.push_back({"id", encode_id("abc"), [](std::string_view bytes) {
                        const auto id = decode_id(bytes);
                        return id ? std::optional{encode_id(*id)} : std::nullopt;
                      }});
  messages.push_back({"number", encode_number(7), [](std::string_view bytes) {
                        const auto number = decode_number(bytes);
                        return number ? std::optional{encode_number(*number)} : std::nullopt;
                      }});
  return messages;
}

TEST(Wire, EveryMessageSurvivesARoundTrip) {
  for (const auto& message : all_messages()) {
    EXPECT_EQ(message.again(message.payload), message.payload) << message.name;
  }
}

TEST(Wire, SpawnKeepsEveryField) {
  const auto decoded = decode_spawn(encode(full_spawn()));
  ASSERT_TRUE(decoded);
  const auto expected = full_spawn();
  EXPECT_EQ(decoded->process_id, expected.process_id);
  EXPECT_EQ(decoded->argv, expected.argv);
  EXPECT_EQ(decoded->env, expected.env);
  EXPECT_EQ(decoded->cwd, expected.cwd);
  EXPECT_EQ(decoded->user, expected.user);
  EXPECT_TRUE(decoded->stdin_open);
  ASSERT_TRUE(decoded->pty);
  EXPECT_EQ(decoded->pty->rows, 40U);
  EXPECT_EQ(decoded->pty->columns, 132U);
  EXPECT_EQ(decoded->timeout_ms, expected.timeout_ms);
  EXPECT_TRUE(decoded->keep);
  EXPECT_EQ(decoded->journal_bytes, expected.journal_bytes);
  EXPECT_TRUE(decoded->channel);
  EXPECT_EQ(decoded->idle_timeout_ms, expected.idle_timeout_ms);
}

// A guest of the build before refuses what it does not know.
TEST(Wire, OwnersTravelOnlyWhenAModeChangeHasSome) {
  const std::string plain = encode(ChangeModeRequest{"/a", "u", 0644});
  EXPECT_EQ(plain, ByteWriter{}.string("/a").string("u").u32(0644).bytes());
  const std::string owned = encode(ChangeModeRequest{"/a", "u", UINT32_MAX, UINT32_MAX, 7});
  const auto decoded = decode_change_mode(owned);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->uid, UINT32_MAX);
  EXPECT_EQ(decoded->gid, 7U);
  EXPECT_EQ(encode(*decoded), owned);
  EXPECT_FALSE(decode_change_mode(owned.substr(0, owned.size() - 4)));
}

TEST(Wire, EveryTruncationFails) {
  for (const auto& message : all_messages()) {
    for (std::size_t size = 0; size < message.payload.size(); ++size) {
      EXPECT_FALSE(message.again(message.payload.substr(0, size))) << message.name << " " << size;
    }
    EXPECT_FALSE(message.again(message.payload + '\0')) << message.name << " with a byte more";
  }
}

TEST(Wire, RandomMutationsNeverBreakTheDecoder) {
  std::mt19937 random{20240607};
  for (const auto& message : all_messages()) {
    for (int round = 0; round < 3000; ++round) {
      std::string bytes = message.payload;
      const int changes = 1 + static_cast<int>(random() % 4);
      for (int change = 0; change < changes; ++change) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      if (random() % 4 == 0) {
        bytes.resize(random() % (bytes.size() + 1));
      }
      // Whatever decodes must encode to something that decodes to the same.
      if (const auto once = message.again(bytes)) {
        EXPECT_EQ(message.again(*once), once) << message.name;
      }
      (void)decode_error(bytes);
      (void)decode_output(bytes);
    }
  }
}

TEST(Wire, FramesCarryKindAndLength) {
  const std::string frame = encode_frame(Kind::kData, "abc");
  ASSERT_EQ(frame.size(), kFrameHeaderBytes + 3);
  const auto header = decode_header(frame.substr(0, kFrameHeaderBytes));
  ASSERT_TRUE(header);
  EXPECT_EQ(header->kind, Kind::kData);
  EXPECT_EQ(header->payload_bytes, 3U);
}

TEST(Wire, AnOversizedFrameIsRefused) {
  const std::string big = encode_frame(Kind::kData, std::string(kMaxPayloadBytes + 1, 'x'));
  EXPECT_FALSE(decode_header(big.substr(0, kFrameHeaderBytes)));
  const std::string fits = encode_frame(Kind::kData, std::string(kMaxPayloadBytes, 'x'));
  EXPECT_TRUE(decode_header(fits.substr(0, kFrameHeaderBytes)));
}

TEST(Wire, SpawnLimitsAreChecked) {
  struct Case {
    const char* reason;
    std::function<void(SpawnRequest&)> spoil;
  };
  const Case cases[] = {
      {"bad_process_id", [](SpawnRequest& r) { r.process_id = ""; }},
      {"bad_process_id", [](SpawnRequest& r) { r.process_id = "a/b"; }},
      {"bad_process_id", [](SpawnRequest& r) { r.process_id = std::string(65, 'a'); }},
      {"bad_argv", [](SpawnRequest& r) { r.argv.clear(); }},
      {"bad_argv", [](SpawnRequest& r) { r.argv[0] = ""; }},
      {"bad_argv", [](SpawnRequest& r) { r.argv[1] = std::string("a\0b", 3); }},
      {"argv_too_long", [](SpawnRequest& r) { r.argv.resize(kMaxArguments + 1, "x"); }},
      {"argv_too_long", [](SpawnRequest& r) { r.argv.push_back(std::string(kMaxArgvBytes, 'x')); }},
      {"bad_env", [](SpawnRequest& r) { r.env[0] = "NOEQUALS"; }},
      {"bad_env", [](SpawnRequest& r) { r.env[0] = "=x"; }},
      {"bad_env", [](SpawnRequest& r) { r.env[0] = std::string("A=\0", 3); }},
      {"env_too_long", [](SpawnRequest& r) { r.env.resize(kMaxVariables + 1, "A=1"); }},
      {"path_not_absolute", [](SpawnRequest& r) { r.cwd = "relative"; }},
      {"path_too_long", [](SpawnRequest& r) { r.cwd = "/" + std::string(kMaxPathBytes, 'a'); }},
      {"bad_path", [](SpawnRequest& r) { r.cwd = std::string("/a\0", 3); }},
      {"bad_user", [](SpawnRequest& r) { r.user = std::string(kMaxUserBytes + 1, 'u'); }},
      {"bad_terminal_size", [](SpawnRequest& r) { r.pty->rows = 0; }},
      {"bad_terminal_size", [](SpawnRequest& r) { r.pty->columns = kMaxPtyCells + 1; }},
      {"bad_timeout", [](SpawnRequest& r) { r.timeout_ms = kMaxTimeoutMs + 1; }},
      {"bad_timeout", [](SpawnRequest& r) { r.idle_timeout_ms = kMaxTimeoutMs + 1; }},
      {"bad_journal", [](SpawnRequest& r) { r.journal_bytes = kMaxJournalBytes + 1; }},
      {"bad_label", [](SpawnRequest& r) { r.label = std::string(kMaxLabelBytes + 1, 'l'); }},
  };
  for (const Case& test : cases) {
    SpawnRequest request = full_spawn();
    test.spoil(request);
    const auto decoded = decode_spawn(encode(request));
    ASSERT_FALSE(decoded) << test.reason;
    EXPECT_EQ(decoded.error().reason, test.reason);
    EXPECT_EQ(decoded.error().code, Code::kInvalidArgument);
    const auto validated = validate(request);
    ASSERT_FALSE(validated) << test.reason;
    EXPECT_EQ(validated.error().reason, test.reason);
  }
  EXPECT_TRUE(validate(full_spawn()));
}

TEST(Wire, ValidateRefusesWhatDoesNotFitIntoOneFrame) {
  SpawnRequest request = full_spawn();
  request.env = {"A=" + std::string(kMaxPayloadBytes, 'x')};
  const auto validated = validate(request);
  ASSERT_FALSE(validated);
  EXPECT_EQ(validated.error().reason, "env_too_long");
}

TEST(Wire, HostileAnswersAreRefused) {
  FileInfo slash = full_file();
  slash.name = "../etc";
  EXPECT_FALSE(decode_file(encode(slash)));
  FileInfo type = full_file();
  type.type = static_cast<FileType>(9);
  EXPECT_FALSE(decode_file(encode(type)));
  FileInfo mode = full_file();
  mode.mode = 0100644;
  EXPECT_FALSE(decode_file(encode(mode)));
  EXPECT_FALSE(decode_exit(encode(ExitStatus{.exited = true, .exit_code = 256})));
  EXPECT_FALSE(decode_output(encode_output({static_cast<Stream>(0), 0}, "x")));
  EXPECT_FALSE(decode_output("\x01\x00"));
  EXPECT_FALSE(decode_signal_process(encode(SignalProcessRequest{"p", 65})));
}

TEST(Wire, TreePathsStayInside) {
  std::string deep = "d";
  for (std::size_t i = 1; i < kMaxTreeDepth; ++i) {
    deep += "/d";
  }
  for (const std::string& good : {std::string{"a"}, std::string{"a/b"}, std::string{"..."},
                                  std::string{".a/..b"}, std::string(255, 'n'), deep}) {
    EXPECT_TRUE(validate_tree_path(good)) << good;
  }
  for (const std::string& bad :
       {std::string{}, std::string{"/"}, std::string{"/a"}, std::string{".."}, std::string{"../a"},
        std::string{"a/.."}, std::string{"a/../b"}, std::string{"."}, std::string{"./a"},
        std::string{"a//b"}, std::string{"a/"}, std::string("a\0b", 3), std::string(256, 'n'),
        std::string(kMaxPathBytes + 1, 'p'), deep + "/d"}) {
    TreeEntry entry = full_entry();
    entry.path = bad;
    const auto decoded = decode_tree_entry(encode(entry));
    ASSERT_FALSE(decoded) << bad;
    EXPECT_EQ(decoded.error().reason, "path_escapes");
    EXPECT_EQ(decoded.error().code, Code::kInvalidArgument);
  }
}

TEST(Wire, HostileTreesAndMatchesAreRefused) {
  const std::function<void(TreeEntry&)> entries[] = {
      [](TreeEntry& e) { e.type = FileType::kOther; },
      [](TreeEntry& e) { e.type = static_cast<FileType>(0); },
      [](TreeEntry& e) { e.type = FileType::kFile; },  // with a target
      [](TreeEntry& e) { e.link_target = ""; },
      [](TreeEntry& e) { e.link_target = std::string("a\0b", 3); },
      [](TreeEntry& e) { e.link_target = std::string(kMaxPathBytes + 1, 'l'); },
      [](TreeEntry& e) { e.mode = 010000; },
      [](TreeEntry& e) { e.size = 1; },  // of a symlink
      [](TreeEntry& e) { e.attributes.assign(kMaxAttributes + 1, {"user.a", ""}); },
      [](TreeEntry& e) { e.attributes = {{"user.a", std::string(kMaxAttributeBytes, 'v')}}; },
      [](TreeEntry& e) { e.attributes = {{"", "v"}}; },
      [](TreeEntry& e) { e.attributes = {{std::string("a\0b", 3), "v"}}; },
  };
  for (const auto& spoil : entries) {
    TreeEntry entry = full_entry();
    spoil(entry);
    EXPECT_FALSE(decode_tree_entry(encode(entry)));
  }
  EXPECT_FALSE(decode_tree_entry(encode(TreeEntry{.path = "f", .size = 1ULL << 63})));
  EXPECT_FALSE(decode_file_event(encode(FileEvent{static_cast<FileEventType>(7), "/a"})));
  EXPECT_FALSE(decode_file_event(encode(FileEvent{FileEventType::kWrite, "a"})));
  EXPECT_FALSE(decode_file_event(
      encode(FileEvent{FileEventType::kWrite, "/" + std::string(kMaxResultPathBytes, 'a')})));
  EXPECT_FALSE(
      decode_match(encode(Match{.path = "/a", .line_text = std::string(kMaxLineBytes + 1, 'x')})));
  EXPECT_FALSE(decode_match(encode(Match{.path = "a"})));
  EXPECT_FALSE(decode_output(encode_output({static_cast<Stream>(5), 0}, "x")));
}

TEST(Wire, SearchLimitsAreChecked) {
  struct Case {
    const char* reason;
    std::function<void(SearchRequest&)> spoil;
  };
  const Case cases[] = {
      {"path_not_absolute", [](SearchRequest& r) { r.path = "a"; }},
      {"bad_user", [](SearchRequest& r) { r.user = std::string("a\0", 2); }},
      {"bad_glob", [](SearchRequest& r) { r.name_glob = std::string(kMaxPatternBytes + 1, '*'); }},
      {"bad_regex", [](SearchRequest& r) { r.content_regex = std::string("a\0", 2); }},
      {"bad_limit", [](SearchRequest& r) { r.max_results = 0; }},
      {"bad_limit", [](SearchRequest& r) { r.max_results = kMaxSearchResults + 1; }},
      {"bad_limit", [](SearchRequest& r) { r.max_file_bytes = 0; }},
      {"bad_limit", [](SearchRequest& r) { r.max_file_bytes = kMaxSearchFileBytes + 1; }},
  };
  for (const Case& test : cases) {
    SearchRequest request = full_search();
    test.spoil(request);
    const auto decoded = decode_search(encode(request));
    ASSERT_FALSE(decoded) << test.reason;
    EXPECT_EQ(decoded.error().reason, test.reason);
    EXPECT_FALSE(validate(request));
  }
}

TEST(Wire, ErrorsTravelAndAreMadePrintable) {
  const Error sent{Code::kNotFound, "no \x1b[31mfile\n", "file_not_found"};
  const Error got = decode_error(encode(sent));
  EXPECT_EQ(got.code, Code::kNotFound);
  EXPECT_EQ(got.reason, "file_not_found");
  EXPECT_EQ(got.message, "no \\x1b[31mfile\\x0a");
  EXPECT_EQ(decode_error("garbage").code, Code::kInternal);
  const Error odd = decode_error(encode(Error{static_cast<Code>(99), "m", "a b\n"}));
  EXPECT_EQ(odd.code, Code::kUnknown);
  EXPECT_EQ(odd.reason, "a_b_");
  EXPECT_EQ(decode_error(encode(Error{Code::kInternal, std::string(100000, 'm'), ""})).message,
            std::string(kMaxErrorBytes, 'm'));
}

TEST(Wire, OutputBorrowsItsBytes) {
  const std::string payload =
      encode_output({Stream::kStderr, 1ULL << 33}, std::string("\0\xff", 2));
  const auto output = decode_output(payload);
  ASSERT_TRUE(output);
  EXPECT_EQ(output->header.stream, Stream::kStderr);
  EXPECT_EQ(output->header.offset, 1ULL << 33);
  EXPECT_EQ(output->bytes, std::string_view("\0\xff", 2));
}

}  // namespace
}  // namespace atl::guest
