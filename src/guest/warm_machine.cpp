#include "guest/warm_machine.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

#include <cerrno>

namespace atl::guest {

#ifdef __x86_64__

namespace {

// syscall; int3
constexpr std::uint64_t kCallCode = 0xcc050f;
constexpr std::uint64_t kCallBytes = 2;
constexpr std::uint64_t kTrapBytes = 1;

Result<user_regs_struct> get(pid_t pid) {
  user_regs_struct registers{};
  iovec part{&registers, sizeof registers};
  if (::ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &part) != 0 ||
      part.iov_len != sizeof registers) {
    return fail_errno("reading the registers of a process");
  }
  return registers;
}

Result<> set(pid_t pid, user_regs_struct registers) {
  // No system call is to be restarted.
  registers.orig_rax = ~0ULL;
  iovec part{&registers, sizeof registers};
  if (::ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &part) != 0) {
    return fail_errno("setting the registers of a process");
  }
  return {};
}

Result<> run(pid_t pid, bool one_step) {
  if (::ptrace(one_step ? PTRACE_SINGLESTEP : PTRACE_CONT, pid, nullptr, nullptr) != 0) {
    return fail_errno("continuing a process");
  }
  return {};
}

}  // namespace

std::string_view machine_name() {
  return "x86_64";
}

Result<> read_registers(pid_t pid, WarmImage& image) {
  TRY(const auto registers, get(pid));
  image.registers.assign(reinterpret_cast<const char*>(&registers), sizeof registers);
  image.extended_registers.resize(kMaxRegisterBytes);
  iovec part{image.extended_registers.data(), image.extended_registers.size()};
  if (::ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &part) != 0) {
    return fail_errno("reading the extended registers of a process");
  }
  image.extended_registers.resize(part.iov_len);
  return {};
}

Result<> write_registers(pid_t pid, const WarmImage& image) {
  user_regs_struct registers{};
  if (image.registers.size() != sizeof registers || image.machine != machine_name()) {
    return fail(Code::kInvalidArgument, "the image has the registers of another machine",
                "malformed");
  }
  image.registers.copy(reinterpret_cast<char*>(&registers), sizeof registers);
  TRY_DO(set(pid, registers));
  iovec part{const_cast<char*>(image.extended_registers.data()), image.extended_registers.size()};
  if (::ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &part) != 0) {
    return fail_errno("setting the extended registers of a process");
  }
  return {};
}

Result<> plant_call(pid_t pid) {
  TRY(const auto registers, get(pid));
  if (::ptrace(PTRACE_POKETEXT, pid, registers.rip, kCallCode) != 0) {
    return fail_errno("writing to a process");
  }
  return {};
}

Result<> begin_call(pid_t pid, const KernelCall& call) {
  TRY(auto registers, get(pid));
  registers.rax = static_cast<std::uint64_t>(call.number);
  registers.rdi = call.arguments[0];
  registers.rsi = call.arguments[1];
  registers.rdx = call.arguments[2];
  registers.r10 = call.arguments[3];
  registers.r8 = call.arguments[4];
  registers.r9 = call.arguments[5];
  TRY_DO(set(pid, registers));
  return run(pid, false);
}

Result<std::int64_t> call_result(pid_t pid) {
  TRY(auto registers, get(pid));
  const auto result = static_cast<std::int64_t>(registers.rax);
  // Back to where the next call begins.
  registers.rip -= kCallBytes + kTrapBytes;
  TRY_DO(set(pid, registers));
  return result;
}

Result<std::uint64_t> find_kernel_pages(pid_t pid) {
  constexpr std::uint64_t kMaxEntries = 64;
  TRY(const auto registers, get(pid));
  // The number of arguments, the argument, its end, the end of the environment; then pairs.
  const std::uint64_t first = registers.rsp + 4 * sizeof(std::uint64_t);
  for (std::uint64_t i = 0; i < kMaxEntries; ++i) {
    errno = 0;
    const std::uint64_t at = first + i * 2 * sizeof(std::uint64_t);
    const long key = ::ptrace(PTRACE_PEEKDATA, pid, at, nullptr);
    const long value = ::ptrace(PTRACE_PEEKDATA, pid, at + sizeof(std::uint64_t), nullptr);
    if (errno != 0) {
      return fail_errno("reading a program's auxiliary vector");
    }
    if (key == AT_SYSINFO_EHDR) {
      return static_cast<std::uint64_t>(value);
    }
    if (key == AT_NULL) {
      break;
    }
  }
  return std::uint64_t{0};
}

Result<> begin_restorer(pid_t pid, std::uint64_t code, std::uint64_t stack_top,
                        std::uint64_t first_step, std::uint64_t last_step) {
  TRY(auto registers, get(pid));
  registers.rip = code;
  registers.rsp = stack_top - sizeof(std::uint64_t);  // as after a call
  registers.rbp = 0;
  registers.rdi = first_step;
  registers.rsi = last_step;
  TRY_DO(set(pid, registers));
  return run(pid, false);
}

Result<RestoreResult> restorer_result(pid_t pid) {
  TRY(const auto registers, get(pid));
  return RestoreResult{static_cast<int>(registers.rax), registers.rbx};
}

Result<> begin_unmap(pid_t pid, std::uint64_t start, std::uint64_t bytes) {
  TRY(auto registers, get(pid));  // it stands before the system call that the restorer ends with
  registers.rax = SYS_munmap;
  registers.rdi = start;
  registers.rsi = bytes;
  TRY_DO(set(pid, registers));
  return run(pid, true);
}

#else

namespace {

std::unexpected<Error> unsupported() {
  return fail(Code::kUnimplemented, "this machine cannot clone processes", "unsupported_machine");
}

}  // namespace

std::string_view machine_name() {
  return "unsupported";
}
Result<> read_registers(pid_t, WarmImage&) {
  return unsupported();
}
Result<> write_registers(pid_t, const WarmImage&) {
  return unsupported();
}
Result<> plant_call(pid_t) {
  return unsupported();
}
Result<> begin_call(pid_t, const KernelCall&) {
  return unsupported();
}
Result<std::int64_t> call_result(pid_t) {
  return unsupported();
}
Result<std::uint64_t> find_kernel_pages(pid_t) {
  return unsupported();
}
Result<> begin_restorer(pid_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t) {
  return unsupported();
}
Result<RestoreResult> restorer_result(pid_t) {
  return unsupported();
}
Result<> begin_unmap(pid_t, std::uint64_t, std::uint64_t) {
  return unsupported();
}

#endif

}  // namespace atl::guest
