// The instructions that rebuild a process from inside.
//
// They are copied into a process that has just executed its program and run there while its own
// memory goes away around them, so they use nothing: no library, no constant, no address. All they
// do is make a list of system calls. What the calls are is decided in warm_steps.cpp.
#include "guest/warm_machine.h"

namespace atl::guest {

#ifdef __x86_64__

extern "C" {

extern const char __start_atoll_restorer[];
extern const char __stop_atoll_restorer[];

__attribute__((section("atoll_restorer"), used, retain, noinline, no_sanitize("all"),
               no_stack_protector)) void
atoll_restore(const RestoreStep* step, const RestoreStep* last) {
  std::uint64_t kept = 0;
  std::uint64_t error_number = 0;
  for (; step != last; ++step) {
    const std::uint64_t* arguments = &step->number + 1;
    const std::uint64_t flags = step->flags;
    std::uint64_t first = arguments[0];
    if ((flags & kUseFirst) != 0) {
      first = kept;
    }
    std::uint64_t result = step->number;
    const std::uint64_t fifth = (flags & kUseFifth) != 0 ? kept : arguments[4];
    register std::uint64_t r10 asm("r10") = arguments[3];
    register std::uint64_t r8 asm("r8") = fifth;
    register std::uint64_t r9 asm("r9") = arguments[5];
    asm volatile("syscall"
                 : "+a"(result)
                 : "D"(first), "S"(arguments[1]), "d"(arguments[2]), "r"(r10), "r"(r8), "r"(r9)
                 : "rcx", "r11", "memory");
    const bool failed = result > static_cast<std::uint64_t>(-4096L);
    if (failed && (flags & kMayFail) == 0) {
      error_number = 0 - result;
      break;
    }
    if ((flags & kThirdIsResult) != 0 && result != arguments[2]) {
      error_number = 5;  // EIO: less than there should be
      break;
    }
    if ((flags & kKeepResult) != 0) {
      kept = result;
    }
    if ((flags & kStoreResult) != 0) {
      *reinterpret_cast<volatile std::uint32_t*>(arguments[5]) = static_cast<std::uint32_t>(result);
    }
  }
  // Whoever traces this looks at the result, and then uses the system call to unmap all of it.
  asm volatile("int3\n\tsyscall\n\tud2" : : "a"(error_number), "b"(step) : "memory");
  __builtin_unreachable();
}

}  // extern "C"

std::string_view restorer_code() {
  return {__start_atoll_restorer,
          static_cast<std::size_t>(__stop_atoll_restorer - __start_atoll_restorer)};
}

#else

std::string_view restorer_code() {
  return {};
}

#endif

}  // namespace atl::guest
