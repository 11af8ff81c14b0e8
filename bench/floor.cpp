// The floor: how fast /bin/true runs in a sandbox when nothing but system calls stands in between.
//
//   atoll-floor pooled|cold ROOTFS DIRECTORY COMMAND...
//
// pooled: cells wait ready; the clock runs from the byte to the exit status and the end of output.
// cold: the clock starts before the first system call for the cell.
// A number on standard input asks for so many at once; the line that comes back has the nanoseconds
// of each, after everything that is not timed (taking down, refilling) is done. Ends with its
// input.
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "base/strings.h"
#include "counts.h"
#include "floor_cell.h"

namespace atl::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kMostAtOnce = 1024;

class Floor {
 public:
  Floor(FloorPlace place, bool pooled) : place_(std::move(place)), pooled_(pooled) {}

  Result<> refill(std::size_t count) {
    const std::size_t have = ready_.size();
    while (pooled_ && ready_.size() < count) {
      TRY(auto cell, FloorCell::make(place_, next_++));
      ready_.push_back(std::move(cell));
    }
    for (std::size_t i = have; i < ready_.size(); ++i) {
      TRY_DO(ready_[i].wait_ready());
    }
    return {};
  }

  // One: what blocks is read at once. Many: whichever is ready.
  Result<std::vector<std::uint64_t>> claim(std::size_t count) {
    TRY_DO(refill(count));
    std::vector<FloorCell> running;
    std::vector<Clock::time_point> begun;
    std::vector<std::uint64_t> taken(count);
    for (std::size_t i = 0; i < count; ++i) {
      begun.push_back(Clock::now());
      if (pooled_) {
        running.push_back(std::move(ready_.back()));
        ready_.pop_back();
      } else {
        TRY(auto cell, FloorCell::make(place_, next_++));
        running.push_back(std::move(cell));
      }
      TRY_DO(running.back().start());
    }
    const auto settle = [&](std::size_t i) -> Result<bool> {
      TRY(const bool done, running[i].finish());
      const auto spent = Clock::now() - begun[i];
      taken[i] = static_cast<std::uint64_t>(std::chrono::nanoseconds{spent}.count());
      return done;
    };
    if (count == 1) {
      for (bool done = false; !done;) {
        TRY(done, settle(0));
      }
    } else {
      TRY_DO(settle_all(running, settle));
    }
    for (auto& cell : running) {
      TRY_DO(cell.destroy(place_));
    }
    TRY_DO(refill(count));
    return taken;
  }

  void drain() {
    for (auto& cell : ready_) {
      (void)cell.destroy(place_);
    }
    ready_.clear();
  }

 private:
  template <class Settle>
  Result<> settle_all(const std::vector<FloorCell>& running, const Settle& settle) {
    std::vector<pollfd> waiting;
    for (const auto& cell : running) {
      waiting.push_back({cell.socket(), POLLIN, 0});
    }
    for (std::size_t left = waiting.size(); left > 0;) {
      if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) {
        return fail_errno("poll");
      }
      for (std::size_t i = 0; i < waiting.size(); ++i) {
        if (waiting[i].fd >= 0 && waiting[i].revents != 0) {
          TRY(const bool done, settle(i));
          if (done) {
            waiting[i].fd = -1;
            --left;
          }
        }
      }
    }
    return {};
  }

  FloorPlace place_;
  bool pooled_;
  unsigned next_ = 0;
  std::vector<FloorCell> ready_;
};

// An overlay cannot stand on another one's upper directory. Where the directory is on one, as /tmp
// is in a container, memory takes its place, for this process and its cells alone.
Result<> leave_overlay(const std::string& directory) {
  struct statfs about{};
  if (::statfs(directory.c_str(), &about) != 0) {
    return fail_errno(directory);
  }
  if (about.f_type != OVERLAYFS_SUPER_MAGIC) {
    return {};
  }
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", directory.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") != 0) {
    return fail_errno("mounting memory on " + directory);
  }
  return {};
}

Result<> answer(Floor& floor) {
  return answer_counts(kMostAtOnce, [&](std::uint64_t count) { return floor.claim(count); });
}

Result<> run(int argc, char** argv) {
  if (argc < 5 || (std::strcmp(argv[1], "pooled") != 0 && std::strcmp(argv[1], "cold") != 0)) {
    return fail(Code::kInvalidArgument,
                "usage: atoll-floor pooled|cold ROOTFS DIRECTORY COMMAND...");
  }
  ::prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
  FloorPlace place{.rootfs = argv[2],
                   .directory = concat(argv[3], "/floor-", ::getpid()),
                   .groups = {},
                   .command = {argv + 4, argv + argc}};
  if (::mkdir(place.directory.c_str(), 0755) != 0) {
    return fail_errno(place.directory);
  }
  TRY_DO(leave_overlay(place.directory));
  TRY(place.groups, make_floor_groups());
  Floor floor{place, std::strcmp(argv[1], "pooled") == 0};
  const auto outcome = answer(floor);
  floor.drain();
  remove_floor_groups(place.groups);
  if (::rmdir(place.directory.c_str()) != 0) {  // it is a mount of ours
    ::umount2(place.directory.c_str(), MNT_DETACH);
    ::rmdir(place.directory.c_str());
  }
  return outcome;
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  // A signal ends the reading, so that what was made is taken down.
  struct sigaction end{};
  end.sa_handler = [](int) { ::close(STDIN_FILENO); };
  ::sigaction(SIGTERM, &end, nullptr);
  ::sigaction(SIGINT, &end, nullptr);
  if (const auto result = atl::bench::run(argc, argv); !result) {
    std::fprintf(stderr, "atoll-floor: %s\n", result.error().message.c_str());
    return 1;
  }
  return 0;
}
