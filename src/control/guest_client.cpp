#include "control/guest_client.h"

#include "base/scope.h"
#include "base/strings.h"
#include "base/trace.h"
#include "control/limits.h"
#include "guest/wire_passing.h"
#include "io/fd_passing.h"

namespace atl::control {

using guest::Kind;

namespace {

// A listing that streams is only limited so that a lying guest cannot hold its caller for ever.
constexpr std::size_t kMaxStreamedFiles = 10'000'000;

auto directory_too_large(std::size_t count) {
  return fail(Code::kResourceExhausted,
              concat("the directory has more than ", count, " entries, too many for one listing"),
              "directory_too_large");
}

// Removing a process waits for its end: five seconds of grace, then the kill.
constexpr Duration kRemoveTimeout = kGuestAnswerTimeout + std::chrono::seconds{10};

}  // namespace

Task<ProcessStream::Event> ProcessStream::next() {
  CO_TRY(const Frame frame, co_await channel_->receive(Duration::zero()));
  if (frame.kind == Kind::kOutput) {
    CO_TRY(const auto output, from_guest(guest::decode_output(frame.payload)));
    co_return Event{output};
  }
  if (frame.kind == Kind::kExit) {
    CO_TRY(const auto status, from_guest(guest::decode_exit(frame.payload)));
    co_return Event{status};
  }
  co_return guest_broke_protocol("neither output nor exit of the process");
}

Task<> ProcessStream::send_input(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.substr(0, kInputPieceBytes);
    CO_TRY_DO(co_await channel_->send_bytes(Kind::kStdin, piece));
    bytes.remove_prefix(piece.size());
  }
  co_return ok();
}

Task<> ProcessStream::sync() {
  return channel_->send(Kind::kSync, {});
}

Task<> ProcessStream::drain_until_synced() {
  for (;;) {
    CO_TRY(const Frame frame, co_await channel_->receive(Duration::zero()));
    if (frame.kind == Kind::kSynced || frame.kind == Kind::kExit) {
      co_return ok();
    }
    if (frame.kind != Kind::kOutput) {
      co_return guest_broke_protocol("neither output nor exit of the process");
    }
  }
}

Task<> ProcessStream::send_channel(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.substr(0, kInputPieceBytes);
    CO_TRY_DO(co_await channel_->send_bytes(Kind::kChannelInput, piece));
    bytes.remove_prefix(piece.size());
  }
  co_return ok();
}

Task<> ProcessStream::end_input() {
  return channel_->send(Kind::kStdinEnd, {});
}

Task<> ProcessStream::input_only() {
  return channel_->send(Kind::kInputOnly, {});
}

Task<> ProcessStream::resize(guest::PtySize size) {
  return channel_->send(Kind::kResize, guest::encode(size));
}

Task<std::string_view> FileReader::next() {
  CO_TRY(const Frame frame, co_await channel_->receive(kGuestStallTimeout));
  if (frame.kind == Kind::kData && !frame.payload.empty()) {
    co_return frame.payload;
  }
  if (frame.kind == Kind::kEnd) {
    co_return std::string_view{};
  }
  co_return guest_broke_protocol("neither bytes nor the end of the file");
}

Task<> FileReader::gone() {
  auto frame = co_await channel_->receive(Duration::zero());
  if (!frame && frame.error().code == Code::kCancelled) {
    co_return fail(std::move(frame).error());
  }
  co_return ok();  // also when it said something: there is nothing that it could have to say
}

Task<std::optional<guest::FileInfo>> DirectoryReader::next() {
  CO_TRY(const Frame frame, co_await channel_->receive(kGuestAnswerTimeout));
  if (frame.kind == Kind::kEnd) {
    co_return std::optional<guest::FileInfo>{};
  }
  if (frame.kind != Kind::kFile) {
    co_return guest_broke_protocol("not a list of files");
  }
  if (++count_ > kMaxStreamedFiles) {
    co_return directory_too_large(kMaxStreamedFiles);
  }
  CO_TRY(auto file, from_guest(guest::decode_file(frame.payload)));
  co_return std::optional{std::move(file)};
}

Task<> FileWriter::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.substr(0, guest::kMaxPayloadBytes);
    auto sent = co_await channel_->send_bytes(Kind::kData, piece);
    if (!sent) {
      if (sent.error().code != Code::kUnavailable) {
        co_return fail(std::move(sent).error());
      }
      // A guest that gives up closes; why is in the frame it sent before.
      auto reason = co_await channel_->receive(kGuestReasonTimeout);
      co_return fail(!reason && reason.error().reason != "guest_lost" ? std::move(reason).error()
                                                                      : std::move(sent).error());
    }
    bytes.remove_prefix(piece.size());
  }
  co_return ok();
}

Task<guest::FileInfo> FileWriter::finish() {
  // If this write fails, the answer that says why may still be there to be read.
  auto sent = co_await channel_->send(Kind::kEnd, {});
  if (!sent && sent.error().code == Code::kCancelled) {
    co_return fail(std::move(sent).error());
  }
  CO_TRY(const auto payload, co_await channel_->expect(Kind::kFile, kGuestStallTimeout));
  co_return from_guest(guest::decode_file(payload));
}

Task<std::unique_ptr<GuestChannel>> GuestClient::start(Kind kind, std::string payload) const {
  const auto upload =
      kind == Kind::kWriteFile ? GuestChannel::Upload::kLarge : GuestChannel::Upload::kSmall;
  CO_TRY(auto channel, co_await GuestChannel::open(*reactor_, socket_path_, upload));
  co_await mark(Step::kConnect);
  CO_TRY_DO(co_await channel->send(kind, std::move(payload)));
  co_return std::move(channel);
}

Task<> GuestClient::call(Kind kind, std::string payload, Duration timeout) const {
  CO_TRY(auto channel, co_await start(kind, std::move(payload)));
  CO_TRY(const auto answer, co_await channel->expect(Kind::kDone, timeout));
  if (!answer.empty()) {
    co_return guest_broke_protocol("an acknowledgement with content");
  }
  co_return ok();
}

Task<guest::Pong> GuestClient::ping() const {
  CO_TRY(auto channel, co_await start(Kind::kPing, {}));
  CO_TRY(const auto payload, co_await channel->expect(Kind::kPong, kGuestAnswerTimeout));
  co_return from_guest(guest::decode_pong(payload));
}

Task<guest::SocketHolder> GuestClient::find_socket(guest::FindSocketRequest request) const {
  CO_TRY(auto channel, co_await start(Kind::kFindSocket, guest::encode(request)));
  CO_TRY(const auto payload, co_await channel->expect(Kind::kSocketHolder, kGuestAnswerTimeout));
  co_return from_guest(guest::decode_socket_holder(payload));
}

Task<std::unique_ptr<ProcessStream>> GuestClient::spawn(guest::SpawnRequest request) const {
  CO_TRY_DO(guest::validate(request));
  CO_TRY(auto channel, co_await start(Kind::kSpawn, guest::encode(request)));
  CO_TRY(const auto payload, co_await channel->expect(Kind::kStarted, kGuestAnswerTimeout));
  co_await mark(Step::kSpawn);
  CO_TRY(const auto pid, from_guest(guest::decode_number(payload)));
  co_return std::make_unique<ProcessStream>(std::move(channel), pid);
}

Task<std::unique_ptr<ProcessStream>> GuestClient::attach(guest::AttachRequest request) const {
  CO_TRY_DO(guest::validate_process_id(request.process_id));
  CO_TRY(auto channel, co_await start(Kind::kAttach, guest::encode(request)));
  CO_TRY(const auto payload, co_await channel->expect(Kind::kStarted, kGuestAnswerTimeout));
  CO_TRY(const auto pid, from_guest(guest::decode_number(payload)));
  co_return std::make_unique<ProcessStream>(std::move(channel), pid);
}

Task<DescribedStream> GuestClient::attach_to_end(std::string process_id,
                                                 std::string channel_bytes) const {
  const guest::AttachRequest request{
      .process_id = std::move(process_id), .from_offset = UINT64_MAX, .describe = true};
  CO_TRY_DO(guest::validate_process_id(request.process_id));
  CO_TRY(auto channel, co_await start(Kind::kAttach, guest::encode(request)));
  if (!channel_bytes.empty()) {
    // Of a process that has ended the guest has already told all and closed: read it.
    auto sent = co_await channel->send_bytes(Kind::kChannelInput, channel_bytes);
    if (!sent && sent.error().code != Code::kUnavailable) {
      co_return fail(std::move(sent).error());
    }
  }
  CO_TRY(const auto described, co_await channel->expect(Kind::kProcess, kGuestAnswerTimeout));
  CO_TRY(auto process, from_guest(guest::decode_process(described)));
  if (process.process_id != request.process_id) {
    co_return guest_broke_protocol("another process than the one asked for");
  }
  CO_TRY(const auto payload, co_await channel->expect(Kind::kStarted, kGuestAnswerTimeout));
  CO_TRY(const auto pid, from_guest(guest::decode_number(payload)));
  co_return DescribedStream{std::move(process),
                            std::make_unique<ProcessStream>(std::move(channel), pid)};
}

Task<std::vector<guest::ProcessInfo>> GuestClient::list_processes() const {
  return with_deadline(kGuestListTimeout, collect_processes());
}

Task<std::vector<guest::FileInfo>> GuestClient::list_directory(guest::PathRequest request) const {
  return with_deadline(kGuestListTimeout, collect_files(std::move(request)));
}

Task<std::vector<guest::ProcessInfo>> GuestClient::collect_processes() const {
  CO_TRY(auto channel, co_await start(Kind::kListProcesses, {}));
  std::vector<guest::ProcessInfo> processes;
  std::size_t bytes = 0;
  for (;;) {
    CO_TRY(const Frame frame, co_await channel->receive(kGuestAnswerTimeout));
    if (frame.kind == Kind::kEnd) {
      co_return std::move(processes);
    }
    bytes += frame.payload.size();
    if (frame.kind != Kind::kProcess || processes.size() >= kMaxListedProcesses ||
        bytes > kMaxListedBytes) {
      co_return guest_broke_protocol("not a list of processes");
    }
    CO_TRY(auto process, from_guest(guest::decode_process(frame.payload)));
    processes.push_back(std::move(process));
  }
}

Task<guest::ProcessInfo> GuestClient::get_process(std::string process_id) const {
  CO_TRY_DO(guest::validate_process_id(process_id));
  CO_TRY(auto channel, co_await start(Kind::kGetProcess, guest::encode_id(process_id)));
  CO_TRY(const auto payload, co_await channel->expect(Kind::kProcess, kGuestAnswerTimeout));
  CO_TRY(auto process, from_guest(guest::decode_process(payload)));
  if (process.process_id != process_id) {
    co_return guest_broke_protocol("another process than the one asked for");
  }
  co_return std::move(process);
}

Task<> GuestClient::signal_process(guest::SignalProcessRequest request) const {
  CO_TRY_DO(guest::validate_process_id(request.process_id));
  co_return co_await call(Kind::kSignalProcess, guest::encode(request), kGuestAnswerTimeout);
}

Task<> GuestClient::remove_process(std::string process_id) const {
  CO_TRY_DO(guest::validate_process_id(process_id));
  co_return co_await call(Kind::kRemoveProcess, guest::encode_id(process_id), kRemoveTimeout);
}

Task<guest::FileInfo> GuestClient::stat(guest::PathRequest request) const {
  CO_TRY_DO(guest::validate_user_path(request.path));
  CO_TRY(auto channel, co_await start(Kind::kStat, guest::encode(request)));
  CO_TRY(const auto payload, co_await channel->expect(Kind::kFile, kGuestAnswerTimeout));
  co_return from_guest(guest::decode_file(payload));
}

Task<std::unique_ptr<DirectoryReader>> GuestClient::read_directory(
    guest::PathRequest request) const {
  CO_TRY_DO(guest::validate_user_path(request.path));
  CO_TRY(auto channel, co_await start(Kind::kListDirectory, guest::encode(request)));
  co_return std::make_unique<DirectoryReader>(std::move(channel));
}

Task<std::vector<guest::FileInfo>> GuestClient::collect_files(guest::PathRequest request) const {
  CO_TRY(const auto reader, co_await read_directory(std::move(request)));
  std::vector<guest::FileInfo> files;
  std::size_t bytes = 0;
  for (;;) {
    CO_TRY(auto file, co_await reader->next());
    if (!file) {
      co_return std::move(files);
    }
    bytes += file->name.size() + file->path.size() + file->link_target.size();
    if (files.size() >= kMaxListedFiles || bytes > kMaxListedBytes) {
      co_return directory_too_large(files.size());
    }
    files.push_back(*std::move(file));
  }
}

namespace {

Task<std::unique_ptr<FileReader>> open_reader(io::Reactor& reactor, std::string socket_path,
                                              const guest::ReadFileRequest& request) {
  CO_TRY(auto channel, co_await GuestChannel::open(reactor, std::move(socket_path)));
  co_await mark(Step::kConnect);
  if (guest::wants_passing(request.length)) {
    CO_TRY_DO(channel->expect_descriptor());
  }
  CO_TRY_DO(co_await channel->send(Kind::kReadFile, guest::encode(request)));
  CO_TRY(const auto payload, co_await channel->expect(Kind::kFile, kGuestAnswerTimeout));
  CO_TRY(auto info, from_guest(guest::decode_file(payload)));
  co_return std::make_unique<FileReader>(std::move(channel), std::move(info));
}

}  // namespace

Task<std::unique_ptr<FileReader>> GuestClient::read_file(guest::ReadFileRequest request) const {
  CO_TRY_DO(guest::validate_user_path(request.path));
  auto reader = co_await open_reader(*reactor_, socket_path_, request);
  if (!reader && reader.error().reason == io::kDescriptorLost &&
      guest::wants_passing(request.length)) {
    request.length = guest::without_passing(request.length);
    co_return co_await open_reader(*reactor_, socket_path_, request);
  }
  co_return std::move(reader);
}

Task<std::unique_ptr<FileWriter>> GuestClient::write_file(guest::WriteFileRequest request) const {
  CO_TRY_DO(guest::validate_user_path(request.path));
  CO_TRY(auto channel, co_await start(Kind::kWriteFile, guest::encode(request)));
  co_return std::make_unique<FileWriter>(std::move(channel));
}

Task<> GuestClient::make_directory(guest::MakeDirectoryRequest request) const {
  CO_TRY_DO(guest::validate_user_path(request.path));
  co_return co_await call(Kind::kMakeDirectory, guest::encode(request), kGuestAnswerTimeout);
}

Task<> GuestClient::move(guest::MoveRequest request) const {
  CO_TRY_DO(guest::validate_user_path(request.source));
  CO_TRY_DO(guest::validate_user_path(request.destination));
  co_return co_await call(Kind::kMove, guest::encode(request), kGuestStallTimeout);
}

Task<> GuestClient::remove(guest::RemoveRequest request) const {
  CO_TRY_DO(guest::validate_user_path(request.path));
  co_return co_await call(Kind::kRemove, guest::encode(request), kGuestStallTimeout);
}

Task<> GuestClient::install_trust(guest::TrustRequest request) const {
  co_return co_await call(Kind::kInstallTrust, guest::encode(request), kTrustTimeout);
}

Task<> GuestClient::change_mode(guest::ChangeModeRequest request) const {
  CO_TRY_DO(guest::validate_user_path(request.path));
  co_return co_await call(Kind::kChangeMode, guest::encode(request), kGuestAnswerTimeout);
}

Task<> GuestClient::sync_file(guest::SyncFileRequest request) const {
  CO_TRY_DO(guest::validate_user_path(request.path));
  co_return co_await call(Kind::kSyncFile, guest::encode(request), kGuestSyncTimeout);
}

}  // namespace atl::control
