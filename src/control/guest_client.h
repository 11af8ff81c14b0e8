// Typed operations on one guest, each on a connection of its own.
//
// A GuestClient is a value: a reactor and a socket path. Streams (a process, a file) hold their
// connection open and end it when destroyed. Loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "control/guest_channel.h"

namespace atl::control {

// Is given what the code prints as it comes, and holds it up while it is not done with it. The
// bytes are borrowed. Its failure ends the wait for the code, not the code.
using OutputSink = std::function<Task<>(const guest::Output&)>;

// A process that is connected: its output arrives as events, its end as the last one.
class ProcessStream {
 public:
  using Event = std::variant<guest::Output, guest::ExitStatus>;

  ProcessStream(std::unique_ptr<GuestChannel> channel, std::uint32_t pid)
      : channel_(std::move(channel)), pid_(pid) {}

  std::uint32_t pid() const { return pid_; }
  // Waits as long as the process is silent. Output borrows until the next call. Nothing may be
  // asked for after the exit.
  Task<Event> next();
  bool ready() const { return channel_->ready(); }
  // May run while next() waits.
  Task<> send_input(std::string_view bytes);
  Task<> end_input();
  // Asks the guest to say when it has taken all input sent so far...
  Task<> sync();
  // ...and reads, dropping output, until it has said so or the process has ended.
  Task<> drain_until_synced();
  Task<> resize(guest::PtySize size);
  // From here on no output comes, and none waits for us; nothing may be asked for any more.
  Task<> input_only();
  // To the other end of the process's descriptor 3.
  Task<> send_channel(std::string_view bytes);

 private:
  std::unique_ptr<GuestChannel> channel_;
  std::uint32_t pid_;
};

struct DescribedStream {
  guest::ProcessInfo process;
  std::unique_ptr<ProcessStream> stream;
};

// The streams of files are virtual so that other places than a guest can have them
// (control/files.h): those have no channel.
class FileReader {
 public:
  FileReader(std::unique_ptr<GuestChannel> channel, guest::FileInfo info)
      : channel_(std::move(channel)), info_(std::move(info)) {}
  virtual ~FileReader() = default;

  const guest::FileInfo& info() const { return info_; }
  // The next bytes, valid until the next call; empty at the end.
  virtual Task<std::string_view> next();
  // What came instead of bytes when it was asked for (guest/wire_passing.h); as hostile as they
  // are. It may be read as long as gone() has not ended.
  io::ForeignFd take_file() {
    return channel_ == nullptr ? io::ForeignFd{} : channel_->take_descriptor();
  }
  // Ends when the guest has left: the sandbox is going away, and its disk with it.
  Task<> gone();

 private:
  std::unique_ptr<GuestChannel> channel_;
  guest::FileInfo info_;
};

// The entries of a directory as they arrive: nothing is kept, because how many there are is the
// sandbox's choice.
class DirectoryReader {
 public:
  explicit DirectoryReader(std::unique_ptr<GuestChannel> channel) : channel_(std::move(channel)) {}
  virtual ~DirectoryReader() = default;

  // Nothing at the end.
  virtual Task<std::optional<guest::FileInfo>> next();

 private:
  std::unique_ptr<GuestChannel> channel_;
  std::size_t count_ = 0;
};

// Replaces a file when finish() succeeds; destroyed earlier, the old file stays.
class FileWriter {
 public:
  explicit FileWriter(std::unique_ptr<GuestChannel> channel) : channel_(std::move(channel)) {}
  virtual ~FileWriter() = default;

  virtual Task<> write(std::string_view bytes);
  virtual Task<guest::FileInfo> finish();

 private:
  std::unique_ptr<GuestChannel> channel_;
};

// Changes of files as they happen; closing it ends the watch in the guest. Whoever does not ask for
// the next change holds the guest up, and what it then misses is told by a kOverflow.
class FileWatch {
 public:
  explicit FileWatch(std::unique_ptr<GuestChannel> channel) : channel_(std::move(channel)) {}
  virtual ~FileWatch() = default;

  // Waits as long as nothing changes.
  virtual Task<guest::FileEvent> next();

 private:
  std::unique_ptr<GuestChannel> channel_;
};

// What a search finds as it is found. Closing it ends the search, also in the middle of a file.
class SearchReader {
 public:
  explicit SearchReader(std::unique_ptr<GuestChannel> channel) : channel_(std::move(channel)) {}

  // Nothing at the end; how it ended is in end() then. Waits as long as nothing is found.
  Task<std::optional<guest::Match>> next();
  const guest::SearchEnd& end() const { return end_; }

 private:
  std::unique_ptr<GuestChannel> channel_;
  guest::SearchEnd end_;
};

// The image of a process: for guests of sandboxes with the same files, and opaque to us.
struct CapturedProcess {
  std::string description;
  // Nobody can change it any more, and its size is within kMaxCopyBytes: to free that takes long.
  io::ForeignFd memory;
  std::uint64_t memory_bytes = 0;
};

class GuestClient {
 public:
  GuestClient(io::Reactor& reactor, std::string socket_path)
      : reactor_(&reactor), socket_path_(std::move(socket_path)) {}

  Task<guest::Pong> ping() const;
  // Who has the socket with this local port.
  Task<guest::SocketHolder> find_socket(guest::FindSocketRequest request) const;

  Task<std::unique_ptr<ProcessStream>> spawn(guest::SpawnRequest request) const;
  // Takes a copy away that a process has made of itself.
  Task<CapturedProcess> capture(guest::CaptureRequest request) const;
  // Returns when the process goes on. The memory is borrowed until then.
  Task<std::unique_ptr<ProcessStream>> revive(guest::ReviveRequest request, int memory) const;
  Task<std::unique_ptr<ProcessStream>> attach(guest::AttachRequest request) const;
  // From its end on, and what it is. The bytes go to its channel without waiting for an answer; a
  // process without a channel does not notice them.
  Task<DescribedStream> attach_to_end(std::string process_id, std::string channel_bytes) const;
  Task<std::vector<guest::ProcessInfo>> list_processes() const;
  Task<guest::ProcessInfo> get_process(std::string process_id) const;
  Task<> signal_process(guest::SignalProcessRequest request) const;
  Task<> remove_process(std::string process_id) const;

  Task<guest::FileInfo> stat(guest::PathRequest request) const;
  Task<std::unique_ptr<DirectoryReader>> read_directory(guest::PathRequest request) const;
  // At once, for a directory that is expected to be small.
  Task<std::vector<guest::FileInfo>> list_directory(guest::PathRequest request) const;
  Task<std::unique_ptr<FileReader>> read_file(guest::ReadFileRequest request) const;
  Task<std::unique_ptr<FileWriter>> write_file(guest::WriteFileRequest request) const;
  Task<> make_directory(guest::MakeDirectoryRequest request) const;
  Task<> move(guest::MoveRequest request) const;
  Task<> remove(guest::RemoveRequest request) const;
  Task<> change_mode(guest::ChangeModeRequest request) const;
  Task<> install_trust(guest::TrustRequest request) const;
  // It is on disk when this returns, with the names that lead to it.
  Task<> sync_file(guest::SyncFileRequest request) const;
  // From its return on no change is missed.
  Task<std::unique_ptr<FileWatch>> watch(guest::WatchRequest request) const;
  Task<std::unique_ptr<SearchReader>> search(guest::SearchRequest request) const;

  io::Reactor& reactor() const { return *reactor_; }
  const std::string& socket_path() const { return socket_path_; }

 private:
  Task<std::unique_ptr<GuestChannel>> start(guest::Kind kind, std::string payload) const;
  Task<std::vector<guest::ProcessInfo>> collect_processes() const;
  Task<std::vector<guest::FileInfo>> collect_files(guest::PathRequest request) const;
  Task<> call(guest::Kind kind, std::string payload, Duration timeout) const;

  io::Reactor* reactor_;
  std::string socket_path_;
};

}  // namespace atl::control
