// What cloning a process needs to know about the processor: registers, system calls in another
// process, and the few instructions that rebuild one from inside (warm_restorer.cpp). x86_64 so
// far; elsewhere kWarmForks is false and everything here answers kUnimplemented.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "guest/warm_image.h"
#include "guest/wire.h"

namespace atl::guest {

std::string_view machine_name();

// Of a stopped tracee.
Result<> read_registers(pid_t pid, WarmImage& image);
Result<> write_registers(pid_t pid, const WarmImage& image);

struct KernelCall {
  long number = 0;
  std::array<std::uint64_t, 6> arguments{};
};

// Puts a system call instruction where a stopped tracee stands. It is not to run its own code
// from here on, except after write_registers().
Result<> plant_call(pid_t pid);
// Lets it make the call; it stops with SIGTRAP afterwards, and call_result() tells.
// REQUIRES: plant_call(), and it has not run anything else since.
Result<> begin_call(pid_t pid, const KernelCall& call);
Result<std::int64_t> call_result(pid_t pid);
// Where the kernel's own pages of a program that was just executed are; 0: it has none. REQUIRES:
// it has one argument and no environment.
Result<std::uint64_t> find_kernel_pages(pid_t pid);

// One system call of a process that rebuilds itself (warm_restorer.cpp runs a list of them).
struct RestoreStep {
  std::uint64_t number = 0;
  std::array<std::uint64_t, 6> arguments{};
  std::uint64_t flags = 0;
};
inline constexpr std::uint64_t kMayFail = 1;         // no matter
inline constexpr std::uint64_t kKeepResult = 2;      // for a later step
inline constexpr std::uint64_t kUseFirst = 4;        // the kept result is the first argument
inline constexpr std::uint64_t kUseFifth = 8;        // or the fifth
inline constexpr std::uint64_t kStoreResult = 16;    // as 32 bits, where the sixth argument says
inline constexpr std::uint64_t kThirdIsResult = 32;  // the result must be the third argument

std::string_view restorer_code();
// Starts the restorer at `code` with a list of steps; it stops with SIGTRAP at its end.
Result<> begin_restorer(pid_t pid, std::uint64_t code, std::uint64_t stack_top,
                        std::uint64_t first_step, std::uint64_t last_step);
// What came of it: 0, or the error number of the step that failed.
struct RestoreResult {
  int error_number = 0;
  std::uint64_t step_address = 0;
};
Result<RestoreResult> restorer_result(pid_t pid);
// Unmaps the restorer itself; stops with SIGTRAP again, and then only write_registers() may follow.
Result<> begin_unmap(pid_t pid, std::uint64_t start, std::uint64_t bytes);

}  // namespace atl::guest
