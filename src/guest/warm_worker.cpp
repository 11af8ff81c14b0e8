#include "guest/warm_worker.h"

#include <signal.h>
#include <unistd.h>

#include "base/signals.h"
#include "guest/file_channel.h"
#include "guest/identity.h"
#include "guest/limits.h"
#include "guest/spawn.h"
#include "guest/wire.h"

namespace atl::guest {
namespace {

constexpr int kSocketFd = 3;

Result<> capture(FileChannel& channel, const CaptureOrder& order) {
  TRY(const auto identity, find_identity(order.user));
  TRY_DO(assume_identity(identity));
  TRY(const auto captured, capture_process(order.source));
  const std::string description = encode(captured.image);
  if (description.size() > kMaxDescriptionBytes) {
    return cannot_capture("its memory has too many parts", "image_too_large");
  }
  return channel.send_with_descriptor(Kind::kImage, description, captured.memory.get());
}

}  // namespace

void run_capture_worker(int socket, const CaptureOrder& order) {
  if (socket != kSocketFd && ::dup2(socket, kSocketFd) < 0) {
    ::_exit(1);
  }
  close_from(kSocketFd + 1);
  raise_oom_score();
  reset_signals();
  ::alarm(kCaptureSeconds);  // a process that never stops must not keep its worker
  if (!set_nonblocking(kSocketFd, false)) {
    ::_exit(1);
  }
  {
    FileChannel channel{Fd{kSocketFd}, {}};
    if (auto captured = capture(channel, order); !captured) {
      (void)channel.send(Kind::kError, encode(captured.error()));
    }
    (void)channel.flush();
  }
  ::_exit(0);
}

}  // namespace atl::guest
