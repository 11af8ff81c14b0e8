// The compiled filter, run by an interpreter, must say what the table says, for every number.
#include "runtime/namespaces/seccomp_program.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "runtime/namespaces/seccomp_policy.h"

namespace atl::runtime::namespaces {
namespace {

constexpr std::uint32_t kErrno = SECCOMP_RET_ERRNO;
#if defined(__x86_64__)
constexpr std::uint32_t kNative = AUDIT_ARCH_X86_64;
constexpr std::uint32_t kForeign = AUDIT_ARCH_I386;
#else
constexpr std::uint32_t kNative = AUDIT_ARCH_AARCH64;
constexpr std::uint32_t kForeign = AUDIT_ARCH_ARM;
#endif

std::uint32_t run(const std::vector<sock_filter>& program, const seccomp_data& data) {
  std::uint32_t accumulator = 0;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const sock_filter& step = program[at];
    bool taken = false;
    switch (step.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        std::memcpy(&accumulator, reinterpret_cast<const char*>(&data) + step.k, 4);
        continue;
      case BPF_ALU | BPF_AND | BPF_K:
        accumulator &= step.k;
        continue;
      case BPF_RET | BPF_K:
        return step.k;
      case BPF_JMP | BPF_JA:
        at += step.k;
        continue;
      case BPF_JMP | BPF_JEQ | BPF_K:
        taken = accumulator == step.k;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        taken = accumulator >= step.k;
        break;
      case BPF_JMP | BPF_JSET | BPF_K:
        taken = (accumulator & step.k) != 0;
        break;
      default:
        ADD_FAILURE() << "unknown instruction " << step.code;
        return 0;
    }
    at += taken ? step.jt : step.jf;
  }
  ADD_FAILURE() << "ran off the end";
  return 0;
}

seccomp_data call(int number, std::vector<std::uint64_t> arguments = {}) {
  seccomp_data data{};
  data.nr = number;
  data.arch = kNative;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    data.args[i] = arguments[i];
  }
  return data;
}

class SeccompPolicyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto table = make_syscall_table();
    ASSERT_TRUE(table);
    table_ = *table;
    program_ = compile_seccomp_program(table_, kErrno | ENOSYS);
  }
  std::uint32_t verdict(int number, std::vector<std::uint64_t> arguments = {}) const {
    return run(program_, call(number, std::move(arguments)));
  }

  SyscallTable table_;
  std::vector<sock_filter> program_;
};

TEST_F(SeccompPolicyTest, EveryNumberGetsItsTableEntry) {
  for (std::size_t number = 0; number < table_.size(); ++number) {
    if (table_[number].is_constant()) {
      EXPECT_EQ(verdict(static_cast<int>(number)), table_[number].action) << number;
    }
  }
}

TEST_F(SeccompPolicyTest, NumbersOutsideTheTableAreUnknown) {
  for (const int number : {1024, 5000, 0x40000000, 0x40000000 + SYS_read, 0x40000200, -1}) {
    EXPECT_EQ(verdict(number), kErrno | ENOSYS) << number;
  }
}

TEST_F(SeccompPolicyTest, ForeignArchitectureIsKilled) {
  seccomp_data data = call(SYS_read);
  data.arch = kForeign;
  EXPECT_EQ(run(program_, data), SECCOMP_RET_KILL_PROCESS);
}

TEST_F(SeccompPolicyTest, ArgumentsAreCheckedInTheirLowHalf) {
  constexpr std::uint64_t kGarbage = 0xABCD'0000'0000'0000;
  const struct {
    int number;
    std::vector<std::uint64_t> arguments;
    std::uint32_t expected;
  } cases[] = {
      {SYS_clone, {0x01200011}, SECCOMP_RET_ALLOW},
      {SYS_clone, {0x10000011}, kErrno | EPERM},
      {SYS_clone, {kGarbage | 0x40000000}, kErrno | EPERM},
      {SYS_clone3, {0}, kErrno | ENOSYS},
      {SYS_unshare, {0x400}, SECCOMP_RET_ALLOW},
      {SYS_unshare, {0x80}, kErrno | EPERM},
      {SYS_socket, {1, 1, 0}, SECCOMP_RET_ALLOW},
      {SYS_socket, {1, 5, 0}, SECCOMP_RET_ALLOW},
      {SYS_socket, {2, 0x80801, 0}, SECCOMP_RET_ALLOW},
      {SYS_socket, {2, 1, 6}, SECCOMP_RET_ALLOW},
      {SYS_socket, {2, 2, 17}, SECCOMP_RET_ALLOW},
      {SYS_socket, {2, 2, 1}, SECCOMP_RET_ALLOW},
      {SYS_socket, {10, 0x80002, 58}, SECCOMP_RET_ALLOW},
      {SYS_socket, {2, 1, 132}, kErrno | EPROTONOSUPPORT},
      {SYS_socket, {2, 1, 262}, kErrno | EPROTONOSUPPORT},
      {SYS_socket, {2, 1, 17}, kErrno | EPROTONOSUPPORT},
      {SYS_socket, {2, 0, 0}, kErrno | EPROTONOSUPPORT},
      {SYS_socket, {2, 2, 136}, kErrno | EPROTONOSUPPORT},
      {SYS_socket, {2, 2, 58}, kErrno | EPROTONOSUPPORT},
      {SYS_socket, {10, 2, 115}, kErrno | EPROTONOSUPPORT},
      {SYS_socket, {2, 6, 0}, kErrno | ESOCKTNOSUPPORT},
      {SYS_socket, {10, 0x80806, 33}, kErrno | ESOCKTNOSUPPORT},
      {SYS_socket, {kGarbage | 2, kGarbage | 5, kGarbage | 132}, kErrno | ESOCKTNOSUPPORT},
      {SYS_socket, {2, 0x80003, 132}, kErrno | EPERM},
      {SYS_mmap, {0, 4096, 3, 0x22}, SECCOMP_RET_ALLOW},
      {SYS_mmap, {0, 4096, 3, kGarbage | 0x40022}, kErrno | ENOMEM},
      {SYS_memfd_create, {0, 3}, SECCOMP_RET_ALLOW},
      {SYS_memfd_create, {0, 5}, kErrno | ENOMEM},
      {SYS_memfd_create, {0, 0xFFFFFFFF}, kErrno | EINVAL},
      {SYS_shmget, {0, 4096, 01600}, SECCOMP_RET_ALLOW},
      {SYS_shmget, {0, 4096, 05600}, kErrno | ENOMEM},
      {SYS_io_setup, {1}, kErrno | ENOSYS},
      {SYS_io_submit, {0}, kErrno | ENOSYS},
      {SYS_io_getevents, {0}, kErrno | ENOSYS},
      {SYS_io_pgetevents, {0}, kErrno | ENOSYS},
      {SYS_io_cancel, {0}, kErrno | ENOSYS},
      {SYS_io_destroy, {0}, kErrno | ENOSYS},
      {SYS_socket, {16, 3, 0}, SECCOMP_RET_ALLOW},
      {SYS_socket, {16, 3, 9}, kErrno | EPROTONOSUPPORT},
      {SYS_socket, {17, 3, 0}, kErrno | EAFNOSUPPORT},
      {SYS_socket, {kGarbage | 40, 1, 0}, kErrno | EAFNOSUPPORT},
      {SYS_ioctl, {0, 0x5401}, SECCOMP_RET_ALLOW},
      {SYS_ioctl, {0, 0x5412}, kErrno | EPERM},
      {SYS_ioctl, {0, kGarbage | 0x5412}, kErrno | EPERM},
      {SYS_ioctl, {0, FICLONE}, SECCOMP_RET_ALLOW},
      {SYS_ioctl, {0, FICLONERANGE}, SECCOMP_RET_ALLOW},
      {SYS_ioctl, {0, FIDEDUPERANGE}, SECCOMP_RET_ALLOW},
      {SYS_ioctl, {0, BTRFS_IOC_SUBVOL_CREATE}, kErrno | ENOTTY},
      {SYS_ioctl, {0, kGarbage | BTRFS_IOC_SUBVOL_CREATE_V2}, kErrno | ENOTTY},
      {SYS_ioctl, {0, BTRFS_IOC_SNAP_CREATE_V2}, kErrno | ENOTTY},
      {SYS_ioctl, {0, BTRFS_IOC_SNAP_DESTROY_V2}, kErrno | ENOTTY},
      {SYS_ioctl, {0, BTRFS_IOC_DEFRAG_RANGE}, kErrno | ENOTTY},
      {SYS_personality, {0x40000}, SECCOMP_RET_ALLOW},
      {SYS_personality, {0xFFFFFFFF}, SECCOMP_RET_ALLOW},
      {SYS_personality, {0x400000}, kErrno | EPERM},
  };
  for (const auto& each : cases) {
    EXPECT_EQ(verdict(each.number, each.arguments), each.expected)
        << each.number << " " << each.arguments[0];
  }
}

TEST_F(SeccompPolicyTest, TheTreeIsShallow) {
  EXPECT_LT(program_.size(), 400U);
}

TEST(SeccompProgramTest, LongBranchesAreReached) {
  SyscallTable table;
  for (std::uint32_t number = 0; number < kSyscallTableSize; ++number) {
    table.push_back({kErrno | number, {}});  // nothing merges: jumps of more than 255
  }
  const auto program = compile_seccomp_program(table, SECCOMP_RET_ALLOW);
  for (std::uint32_t number = 0; number < kSyscallTableSize; ++number) {
    EXPECT_EQ(run(program, call(static_cast<int>(number))), kErrno | number);
  }
}

}  // namespace
}  // namespace atl::runtime::namespaces
