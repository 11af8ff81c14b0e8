// Images of processes, on their way from one guest to others.
//
// What a guest sends is hostile: the description is never looked into, and the memory file is held
// only when it is one that nobody can change or shrink under those who map it.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/scope.h"
#include "control/guest_client.h"
#include "control/limits.h"

namespace atl::control {
namespace {

Result<std::uint64_t> check_memory(const io::ForeignFd& memory) {
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  struct stat file{};
  struct statfs filesystem{};
  if (!memory || ::fstat(memory.get(), &file) != 0 || !S_ISREG(file.st_mode) ||
      ::fstatfs(memory.get(), &filesystem) != 0 || filesystem.f_type != TMPFS_MAGIC) {
    return guest_broke_protocol("an image without memory");
  }
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return guest_broke_protocol("an image that is not sealed");
  }
  const auto bytes = static_cast<std::uint64_t>(file.st_size);
  if (bytes > kMaxCopyBytes) {
    return guest_broke_protocol("an image that is too large");
  }
  return bytes;
}

}  // namespace

Task<CapturedProcess> GuestClient::capture(guest::CaptureRequest request) const {
  CO_TRY_DO(guest::validate_process_id(request.process_id));
  CO_TRY(auto channel, co_await GuestChannel::open(*reactor_, socket_path_));
  CO_TRY_DO(channel->expect_descriptor());
  CO_TRY_DO(co_await channel->send(guest::Kind::kCapture, guest::encode(request)));
  CO_TRY(const auto description,
         co_await channel->expect(guest::Kind::kImage, kGuestAnswerTimeout));
  if (description.size() > guest::kMaxDescriptionBytes) {
    co_return guest_broke_protocol("a description that is too long");
  }
  CapturedProcess captured{.description = std::string{description},
                           .memory = channel->take_descriptor()};
  CO_TRY(captured.memory_bytes, check_memory(captured.memory));
  co_return std::move(captured);
}

Task<std::unique_ptr<ProcessStream>> GuestClient::revive(guest::ReviveRequest request,
                                                         int memory) const {
  CO_TRY_DO(guest::validate(request.spawn));
  CO_TRY(auto channel, co_await GuestChannel::open(*reactor_, socket_path_));
  CO_TRY_DO(co_await channel->send_passing(guest::Kind::kRevive, guest::encode(request), memory));
  CO_TRY(const auto payload, co_await channel->expect(guest::Kind::kStarted, kGuestAnswerTimeout));
  CO_TRY(const auto pid, from_guest(guest::decode_number(payload)));
  co_return std::make_unique<ProcessStream>(std::move(channel), pid);
}

}  // namespace atl::control
