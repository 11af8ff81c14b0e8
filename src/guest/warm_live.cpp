#include "guest/warm_live.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include <cerrno>

namespace atl::guest {

#ifdef __x86_64__

namespace {

constexpr std::string_view kCallInstruction{"\x0f\x05", 2};

Result<user_regs_struct> get(pid_t pid) {
  user_regs_struct registers{};
  iovec part{&registers, sizeof registers};
  if (::ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &part) != 0 ||
      part.iov_len != sizeof registers) {
    return fail_errno("reading the registers of a process");
  }
  return registers;
}

Result<> set(pid_t pid, user_regs_struct& registers) {
  iovec part{&registers, sizeof registers};
  if (::ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &part) != 0) {
    return fail_errno("setting the registers of a process");
  }
  return {};
}

}  // namespace

Result<std::string> save_registers(pid_t pid) {
  TRY(const auto registers, get(pid));
  return std::string{reinterpret_cast<const char*>(&registers), sizeof registers};
}

Result<> put_back_registers(pid_t pid, const std::string& saved) {
  user_regs_struct registers{};
  CHECK(saved.size() == sizeof registers);
  saved.copy(reinterpret_cast<char*>(&registers), sizeof registers);
  return set(pid, registers);
}

std::size_t find_call_instruction(std::string_view code) {
  return code.find(kCallInstruction);
}

Result<> aim_at_call(pid_t pid, std::uint64_t instruction, const KernelCall& call) {
  TRY(auto registers, get(pid));
  registers.rip = instruction;
  registers.orig_rax = ~0ULL;
  registers.rax = static_cast<std::uint64_t>(call.number);
  registers.rdi = call.arguments[0];
  registers.rsi = call.arguments[1];
  registers.rdx = call.arguments[2];
  registers.r10 = call.arguments[3];
  registers.r8 = call.arguments[4];
  registers.r9 = call.arguments[5];
  return set(pid, registers);
}

Result<std::int64_t> result_of_call(pid_t pid) {
  TRY(const auto registers, get(pid));
  return static_cast<std::int64_t>(registers.rax);
}

#else

namespace {

std::unexpected<Error> unsupported() {
  return fail(Code::kUnimplemented, "this machine cannot clone processes", "unsupported_machine");
}

}  // namespace

Result<std::string> save_registers(pid_t) {
  return unsupported();
}
Result<> put_back_registers(pid_t, const std::string&) {
  return unsupported();
}
std::size_t find_call_instruction(std::string_view) {
  return std::string_view::npos;
}
Result<> aim_at_call(pid_t, std::uint64_t, const KernelCall&) {
  return unsupported();
}
Result<std::int64_t> result_of_call(pid_t) {
  return unsupported();
}

#endif

}  // namespace atl::guest
