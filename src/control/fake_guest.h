// A guest for tests: a unix socket on which each connection is served by a script.
//
// The default script speaks the protocol over an in-memory file system and a few made-up programs;
// a test may install a hostile one instead.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/scope.h"
#include "base/strings.h"
#include "control/guest_channel.h"
#include "guest/wire.h"
#include "io/stream.h"

namespace atl::control {

class FakeGuest {
 public:
  using Script = std::function<Task<>(io::Stream& stream)>;

  FakeGuest(io::Reactor& reactor, std::string path)
      : listener_(reactor, *io::Listener::bind_unix(path, 0600)), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  Script script;                             // empty: the polite one
  std::map<std::string, std::string> files;  // path -> content
  std::map<std::string, guest::ProcessInfo> processes;
  std::map<std::string, std::string> inputs;  // by process id
  guest::SpawnRequest last_spawn;

  // Serves until cancelled.
  Task<> run() {
    Scope scope{co_await current_context()};
    scope.on_error([](const char*, const Error&) {});
    Result<> ended;
    for (;;) {
      auto stream = co_await listener_.accept();
      if (!stream) {
        ended = fail(std::move(stream).error());
        break;
      }
      scope.spawn("guest connection", serve(*std::move(stream)));
    }
    (void)co_await scope.cancel_and_join();
    co_return std::move(ended);
  }

 private:
  Task<> serve(std::unique_ptr<io::FdStream> stream) {
    if (script) {
      co_return co_await script(*stream);
    }
    GuestChannel channel{std::move(stream)};
    co_return co_await converse(channel);
  }

  Task<> converse(GuestChannel& channel) {
    CO_TRY(const Frame frame, co_await channel.receive(Duration::zero()));
    switch (frame.kind) {
      case guest::Kind::kPing:
        co_return co_await channel.send(guest::Kind::kPong, guest::encode(guest::Pong{}));
      case guest::Kind::kSpawn:
        co_return co_await spawn(channel, *guest::decode_spawn(frame.payload));
      case guest::Kind::kAttach:
        co_return co_await attach(channel, *guest::decode_attach(frame.payload));
      case guest::Kind::kListProcesses:
        co_return co_await list_processes(channel);
      case guest::Kind::kGetProcess:
        co_return co_await get_process(channel, *guest::decode_id(frame.payload));
      case guest::Kind::kSignalProcess:
      case guest::Kind::kMakeDirectory:
      case guest::Kind::kMove:
      case guest::Kind::kChangeMode:
        co_return co_await channel.send(guest::Kind::kDone, {});
      case guest::Kind::kRemoveProcess:
        co_return co_await remove_process(channel, *guest::decode_id(frame.payload));
      case guest::Kind::kRemove:
        files.erase(guest::decode_remove(frame.payload)->path);
        co_return co_await channel.send(guest::Kind::kDone, {});
      case guest::Kind::kStat:
        co_return co_await stat(channel, guest::decode_path(frame.payload)->path);
      case guest::Kind::kListDirectory:
        co_return co_await list_files(channel);
      case guest::Kind::kReadFile:
        co_return co_await read(channel, *guest::decode_read_file(frame.payload));
      case guest::Kind::kWriteFile:
        co_return co_await write(channel, *guest::decode_write_file(frame.payload));
      default:
        co_return ok();
    }
  }

  static Task<> refuse(GuestChannel& channel, Code code, std::string message, std::string reason) {
    return channel.send(guest::Kind::kError,
                        guest::encode(Error{code, std::move(message), std::move(reason)}));
  }

  // Programs: "echo" (its arguments), "cat" (its input), "mixed" (both streams, exit 3),
  // "binary" (bytes that are no text), "sleep" (never ends); others are not found.
  Task<> spawn(GuestChannel& channel, guest::SpawnRequest request) {
    last_spawn = request;
    const std::string program = request.argv[0];
    if (program != "echo" && program != "cat" && program != "mixed" && program != "binary" &&
        program != "sleep") {
      co_return co_await refuse(channel, Code::kNotFound, concat("command not found: ", program),
                                "command_not_found");
    }
    auto& process = processes[request.process_id];
    process.process_id = request.process_id;
    process.argv = request.argv;
    process.cwd = request.cwd;
    process.user = request.user;
    process.keep = request.keep;
    process.running = true;
    process.started_unix_ms = 1'000'000'000'000;
    CO_TRY_DO(co_await channel.send(guest::Kind::kStarted, guest::encode_number(42)));
    if (program == "sleep") {
      co_return co_await wait_for_client(channel, request.process_id);
    }
    if (program == "cat") {
      CO_TRY_DO(co_await wait_for_client(channel, request.process_id));
    }
    process.running = false;
    process.exit = {.exited = true, .exit_code = program == "mixed" ? 3U : 0U};
    CO_TRY_DO(co_await send_output(channel, process));
    co_return co_await channel.send(guest::Kind::kExit, guest::encode(process.exit));
  }

  // Takes input until its end.
  Task<> wait_for_client(GuestChannel& channel, std::string id) {
    for (;;) {
      CO_TRY(const Frame frame, co_await channel.receive(Duration::zero()));
      if (frame.kind == guest::Kind::kStdinEnd) {
        co_return ok();
      }
      if (frame.kind == guest::Kind::kSync) {
        CO_TRY_DO(co_await channel.send(guest::Kind::kSynced, {}));
        continue;
      }
      inputs[id] += frame.payload;
    }
  }

  Task<> send_output(GuestChannel& channel, const guest::ProcessInfo& process) {
    const std::string& program = process.argv[0];
    std::vector<std::pair<guest::Stream, std::string>> pieces;
    if (program == "echo") {
      pieces.emplace_back(guest::Stream::kStdout, process.argv.at(1) + "\n");
    } else if (program == "cat") {
      pieces.emplace_back(guest::Stream::kStdout, inputs[process.process_id]);
    } else if (program == "mixed") {
      pieces = {{guest::Stream::kStdout, "out\n"}, {guest::Stream::kStderr, "err\n"}};
    } else if (program == "binary") {
      pieces.emplace_back(guest::Stream::kStdout, "a\xff\xfe");
    }
    std::uint64_t offset = 0;
    for (const auto& [stream, bytes] : pieces) {
      if (!bytes.empty()) {
        CO_TRY_DO(co_await channel.send(guest::Kind::kOutput,
                                        guest::encode_output({stream, offset}, bytes)));
      }
      offset += bytes.size();
    }
    co_return ok();
  }

  Task<> attach(GuestChannel& channel, guest::AttachRequest request) {
    const auto found = processes.find(request.process_id);
    if (found == processes.end()) {
      co_return co_await refuse(channel, Code::kNotFound, "no process", "process_not_found");
    }
    if (request.describe) {
      CO_TRY_DO(co_await channel.send(guest::Kind::kProcess, guest::encode(found->second)));
    }
    CO_TRY_DO(co_await channel.send(guest::Kind::kStarted, guest::encode_number(42)));
    if (found->second.running) {
      co_return co_await wait_for_client(channel, request.process_id);
    }
    CO_TRY_DO(co_await send_output(channel, found->second));
    co_return co_await channel.send(guest::Kind::kExit, guest::encode(found->second.exit));
  }

  Task<> list_processes(GuestChannel& channel) {
    for (const auto& [id, process] : processes) {
      CO_TRY_DO(co_await channel.send(guest::Kind::kProcess, guest::encode(process)));
    }
    co_return co_await channel.send(guest::Kind::kEnd, {});
  }

  Task<> get_process(GuestChannel& channel, std::string id) {
    const auto found = processes.find(id);
    if (found == processes.end()) {
      co_return co_await refuse(channel, Code::kNotFound, "no process", "process_not_found");
    }
    co_return co_await channel.send(guest::Kind::kProcess, guest::encode(found->second));
  }

  Task<> remove_process(GuestChannel& channel, std::string id) {
    if (processes.erase(id) == 0) {
      co_return co_await refuse(channel, Code::kNotFound, "no process", "process_not_found");
    }
    co_return co_await channel.send(guest::Kind::kDone, {});
  }

  static guest::FileInfo info_of(const std::string& path, std::size_t size) {
    return {.name = path.substr(path.rfind('/') + 1), .path = path, .size = size, .mode = 0644};
  }

  Task<> stat(GuestChannel& channel, std::string path) {
    const auto found = files.find(path);
    if (found == files.end()) {
      co_return co_await refuse(channel, Code::kNotFound, path + " does not exist",
                                "file_not_found");
    }
    co_return co_await channel.send(guest::Kind::kFile,
                                    guest::encode(info_of(path, found->second.size())));
  }

  Task<> list_files(GuestChannel& channel) {
    for (const auto& [path, content] : files) {
      CO_TRY_DO(
          co_await channel.send(guest::Kind::kFile, guest::encode(info_of(path, content.size()))));
    }
    co_return co_await channel.send(guest::Kind::kEnd, {});
  }

  Task<> read(GuestChannel& channel, guest::ReadFileRequest request) {
    const auto found = files.find(request.path);
    if (found == files.end()) {
      co_return co_await refuse(channel, Code::kNotFound, request.path + " does not exist",
                                "file_not_found");
    }
    const std::string content = found->second;
    CO_TRY_DO(co_await channel.send(guest::Kind::kFile,
                                    guest::encode(info_of(request.path, content.size()))));
    std::string_view rest =
        std::string_view{content}.substr(std::min<std::size_t>(request.offset, content.size()));
    rest = rest.substr(
        0, static_cast<std::size_t>(std::min<std::uint64_t>(request.length, rest.size())));
    while (!rest.empty()) {
      const auto piece = rest.substr(0, 64 * 1024);
      CO_TRY_DO(co_await channel.send_bytes(guest::Kind::kData, piece));
      rest.remove_prefix(piece.size());
    }
    co_return co_await channel.send(guest::Kind::kEnd, {});
  }

  Task<> write(GuestChannel& channel, guest::WriteFileRequest request) {
    if (request.path.starts_with("/forbidden")) {
      co_return co_await refuse(channel, Code::kPermissionDenied, "no", "permission_denied");
    }
    std::string content;
    for (;;) {
      CO_TRY(const Frame frame, co_await channel.receive(Duration::zero()));
      if (frame.kind == guest::Kind::kEnd) {
        break;
      }
      content += frame.payload;
    }
    files[request.path] = content;
    co_return co_await channel.send(guest::Kind::kFile,
                                    guest::encode(info_of(request.path, content.size())));
  }

  io::Listener listener_;
  std::string path_;
};

}  // namespace atl::control
