// Files and processes in E2B's words.
#include <gtest/gtest.h>

#include "service/e2b/envd/connect.h"
#include "service/e2b/envd/entry_text.h"
#include "service/e2b/envd/file_metadata.h"
#include "service/e2b/envd/process_text.h"
#include "service/e2b/envd/sandbox_path.h"

namespace atl::service::e2b::envd {
namespace {

using guest::FileType;

TEST(EnvdText, PermissionsAreGos) {
  EXPECT_EQ(permissions_text(FileType::kFile, 0644), "-rw-r--r--");
  EXPECT_EQ(permissions_text(FileType::kDirectory, 0755), "drwxr-xr-x");
  EXPECT_EQ(permissions_text(FileType::kDirectory, 01777), "dtrwxrwxrwx");
  EXPECT_EQ(permissions_text(FileType::kSymlink, 0777), "Lrwxrwxrwx");
  EXPECT_EQ(permissions_text(FileType::kFile, 06711), "ugrwx--x--x");
}

TEST(EnvdText, ExitsAreGos) {
  EXPECT_EQ(end_event({.exited = true}),
            Json::object({{"exitCode", 0}, {"exited", true}, {"status", "exit status 0"}}));
  EXPECT_EQ(end_event({.exited = true, .exit_code = 3}),
            Json::object({{"exitCode", 3},
                          {"exited", true},
                          {"status", "exit status 3"},
                          {"error", "exit status 3"}}));
  EXPECT_EQ(end_event({.signal = 9}), Json::object({{"exitCode", -1},
                                                    {"exited", false},
                                                    {"status", "signal: killed"},
                                                    {"error", "signal: killed"}}));
  EXPECT_EQ(*end_event({.signal = 40}).find("status"), Json{"signal: signal 40"});
}

TEST(EnvdText, OutputIsTheMessageItIs) {
  using guest::Stream;
  for (const auto& [stream, name] :
       {std::pair{Stream::kStdout, "stdout"}, {Stream::kStderr, "stderr"}, {Stream::kPty, "pty"}}) {
    for (const std::size_t size : {0, 1, 2, 3, 200, 70'000}) {
      const std::string bytes(size, '\xfe');
      const Json message =
          Json::object({{"event", Json::object({{"data", Json::object({{name, bytes}})}})}});
      for (const Codec codec : {Codec::kJson, Codec::kBinary}) {
        EXPECT_EQ(encode_output(codec, {{stream, 0}, bytes}),
                  encode_message(kProcessEventResponse, codec, message))
            << name << " " << size;
      }
    }
  }
}

TEST(EnvdText, LinksAreTheirTargets) {
  guest::FileInfo info{.name = "l", .path = "/a/../l", .type = FileType::kSymlink, .mode = 0777};
  info.details = {.owner = "user",
                  .group = "users",
                  .resolved_path = "/etc",
                  .resolved_type = FileType::kDirectory};
  const Json entry = entry_json(info);
  EXPECT_EQ(*entry.find("type"), Json{"FILE_TYPE_DIRECTORY"});
  EXPECT_EQ(*entry.find("symlinkTarget"), Json{"/etc"});
  EXPECT_EQ(*entry.find("path"), Json{"/l"});
  EXPECT_EQ(*entry.find("owner"), Json{"user"});
  EXPECT_EQ(*entry.find("isSymlink"), Json{true});
  EXPECT_EQ(entry.find("metadata"), nullptr);
  info.link_target = "nowhere";
  info.details->resolved_path.clear();
  info.details->resolved_type = FileType::kOther;
  EXPECT_EQ(*entry_json(info).find("type"), Json{"FILE_TYPE_SYMLINK"});
  EXPECT_EQ(*entry_json(info).find("symlinkTarget"), Json{"nowhere"});
}

TEST(EnvdText, MetadataAreAttributes) {
  const auto attributes =
      read_metadata({{"X-Metadata-Author", "me"}, {"x-metadata-author", "you"}, {"Other", "x"}});
  ASSERT_TRUE(attributes);
  EXPECT_EQ(*attributes, (std::vector<guest::Attribute>{{"user.e2b.author", "you"}}));
  EXPECT_EQ(metadata_json({{"user.e2b.author", "you"}, {"user.other", "x"}}),
            Json::object({{"author", "you"}}));
  EXPECT_FALSE(read_metadata({{"X-Metadata-a", "\t"}}));
  EXPECT_FALSE(read_metadata({{"X-Metadata-", "a"}}));
  EXPECT_FALSE(read_metadata({{"X-Metadata-a", std::string(kMaxMetadataBytes, 'x')}}));
}

TEST(EnvdText, EventsAreRelativeToTheRoot) {
  EXPECT_EQ(file_event_json({guest::FileEventType::kCreate, "/r/a/b"}, "/r"),
            Json::object({{"name", "a/b"}, {"type", "EVENT_TYPE_CREATE"}}));
  EXPECT_EQ(file_event_json({guest::FileEventType::kWrite, "/b"}, "/"),
            Json::object({{"name", "b"}, {"type", "EVENT_TYPE_WRITE"}}));
}

TEST(EnvdText, FilesThatUploadsPassThroughAreNobodys) {
  EXPECT_TRUE(is_passing({guest::FileEventType::kWrite, "/d/.atoll-0123456789abcdef"}));
  EXPECT_FALSE(is_passing({guest::FileEventType::kWrite, "/d/.atoll-0123456789abcdeg"}));
  EXPECT_FALSE(is_passing({guest::FileEventType::kWrite, "/d/.atoll-"}));
  EXPECT_FALSE(is_passing({guest::FileEventType::kWrite, "/.atoll-0123456789abcdef/file"}));
}

TEST(EnvdText, PathsAreOfTheHomeDirectory) {
  EXPECT_EQ(guest_path("a/b", ""), "~/a/b");
  EXPECT_EQ(guest_path("~", ""), "~");
  EXPECT_EQ(guest_path("~/a", ""), "~/a");
  EXPECT_EQ(guest_path("~a", ""), "~/~a");
  EXPECT_EQ(guest_path("/a//b/../c/", ""), "/a/c");
  EXPECT_EQ(guest_path("", ""), "~");
  EXPECT_EQ(guest_path("", "/srv"), "/srv");
  EXPECT_EQ(process_directory("", "/workspace"), "~");
  EXPECT_EQ(process_directory("", "/app"), "/app");
  EXPECT_EQ(process_directory("x", "/app"), "~/x");
}

TEST(EnvdText, LabelsAreTheSandboxsWord) {
  guest::ProcessInfo process{.pid = 7, .argv = {"/bin/bash", "-l"}, .cwd = "/"};
  process.label = process_label("tag", Json::object({{"A", "1"}}));
  EXPECT_EQ(process_tag(process), "tag");
  const auto json = process_json(process);
  ASSERT_TRUE(json);
  EXPECT_EQ(*json->find("config")->find("envs"), Json::object({{"A", "1"}}));
  EXPECT_LE(process_label("tag", Json::object({{"A", std::string(20'000, 'x')}})).size(), 100U);
  for (const std::string label : {"", "e2b:", "e2b:[]", "e2b:{\"tag\":1,\"envs\":[1]}", "x"}) {
    process.label = label;
    EXPECT_EQ(process_tag(process), "") << label;
    EXPECT_TRUE(process_json(process)) << label;
  }
  process.has_channel = true;
  EXPECT_FALSE(process_json(process));
}

TEST(EnvdText, CallersAndFormats) {
  EXPECT_EQ(call_format({{"Content-Type", "application/connect+json; charset=utf-8"}})->streaming,
            true);
  EXPECT_EQ(call_format({{"Content-Type", "application/proto"}})->codec, Codec::kBinary);
  EXPECT_FALSE(call_format({{"Content-Type", "text/plain"}}));
  SandboxTarget target;
  http::Request request;
  EXPECT_EQ(read_caller(request, target)->user, "user");
  request.headers.set("Authorization", "Basic cm9vdDo=");
  request.headers.set("Connect-Timeout-Ms", "1500");
  request.headers.set("Keepalive-Ping-Interval", "50");
  const auto caller = read_caller(request, target);
  EXPECT_EQ(caller->user, "root");
  EXPECT_EQ(caller->timeout_ms, 1500U);
  EXPECT_EQ(caller->keepalive_interval, std::chrono::seconds{50});
  request.headers.set("Connect-Timeout-Ms", "soon");
  EXPECT_FALSE(read_caller(request, target));
  EXPECT_EQ(connect_code(Code::kCancelled), "canceled");
  EXPECT_EQ(connect_status(Code::kUnauthenticated), 401);
}

}  // namespace
}  // namespace atl::service::e2b::envd
