// A small compiler from a table of verdicts to a seccomp filter.
//
// The kernel evaluates a filter once per system call number when it is loaded (to cache what is
// always allowed) and again for each call that is not. So shape matters more than anything: equal
// neighbours are merged into ranges and the ranges become a balanced tree, which decides any
// number in about six comparisons, where a list would need hundreds. Numbers above the table,
// among them all x32 calls, get the default verdict; a foreign architecture kills.
//
// Arguments are compared in their low 32 bits only. That is exact for the calls we check: the
// kernel itself takes those arguments as 32-bit values, so garbage in the high half can neither
// hide nor forge a match.
#pragma once

#include <linux/filter.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace atl::runtime::namespaces {

inline constexpr std::size_t kSyscallTableSize = 1024;  // numbers above it get the default

struct Condition {
  enum class Kind : std::uint8_t { kEquals, kAnyBits };
  unsigned argument = 0;  // 0..5
  Kind kind = Kind::kEquals;
  std::uint32_t value = 0;
  std::uint32_t mask = ~0U;  // of what is looked at
};
// All conditions hold: the action is taken. Rules are tried in order.
struct ArgumentRule {
  std::vector<Condition> conditions;
  std::uint32_t action = 0;
};
struct Verdict {
  std::uint32_t action = 0;         // SECCOMP_RET_...; taken when no rule matches
  std::vector<ArgumentRule> rules;  // empty: the arguments do not matter

  bool is_constant() const { return rules.empty(); }
};
// Verdicts by system call number.
using SyscallTable = std::vector<Verdict>;

// REQUIRES: table.size() <= kSyscallTableSize.
std::vector<sock_filter> compile_seccomp_program(const SyscallTable& table,
                                                 std::uint32_t default_action);

}  // namespace atl::runtime::namespaces
