#include "runtime/namespaces/seccomp_program.h"

#include <linux/audit.h>
#include <linux/seccomp.h>

#include <bit>
#include <span>

#include "base/error.h"

namespace atl::runtime::namespaces {
namespace {

static_assert(std::endian::native == std::endian::little, "low halves come first");

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "seccomp: add this architecture's audit number"
#endif

constexpr std::size_t kMaxConditionalJump = 255;

using Program = std::vector<sock_filter>;

sock_filter statement(unsigned code, std::uint32_t value) {
  return {static_cast<std::uint16_t>(code), 0, 0, value};
}
sock_filter jump(unsigned code, std::uint32_t value, std::size_t if_true, std::size_t if_false) {
  CHECK(if_true <= kMaxConditionalJump && if_false <= kMaxConditionalJump);
  return {static_cast<std::uint16_t>(code), static_cast<std::uint8_t>(if_true),
          static_cast<std::uint8_t>(if_false), value};
}
sock_filter answer(std::uint32_t action) {
  return statement(BPF_RET | BPF_K, action);
}

void append(Program& program, const Program& more) {
  program.insert(program.end(), more.begin(), more.end());
}

Program compile_rule(const ArgumentRule& rule) {
  Program program;
  std::size_t total = rule.conditions.size() * 2 + 1;
  for (const Condition& condition : rule.conditions) {
    total += condition.mask == ~0U ? 0 : 1;
  }
  for (const Condition& condition : rule.conditions) {
    program.push_back(statement(
        BPF_LD | BPF_W | BPF_ABS,
        static_cast<std::uint32_t>(offsetof(seccomp_data, args)) + 8 * condition.argument));
    if (condition.mask != ~0U) {
      program.push_back(statement(BPF_ALU | BPF_AND | BPF_K, condition.mask));
    }
    const unsigned test = condition.kind == Condition::Kind::kEquals ? BPF_JEQ : BPF_JSET;
    const std::size_t behind_rule = total - program.size() - 1;
    program.push_back(jump(BPF_JMP | test | BPF_K, condition.value, 0, behind_rule));
  }
  program.push_back(answer(rule.action));
  return program;
}

Program compile_verdict(const Verdict& verdict) {
  Program program;
  for (const ArgumentRule& rule : verdict.rules) {
    append(program, compile_rule(rule));
  }
  program.push_back(answer(verdict.action));
  return program;
}

struct Range {
  std::uint32_t first = 0;  // up to the next range's first
  Verdict verdict;
};

std::vector<Range> merge_ranges(const SyscallTable& table, std::uint32_t default_action) {
  std::vector<Range> ranges;
  for (std::uint32_t number = 0; number <= table.size(); ++number) {
    const Verdict verdict = number < table.size() ? table[number] : Verdict{default_action, {}};
    const bool same = !ranges.empty() && verdict.is_constant() &&
                      ranges.back().verdict.is_constant() &&
                      ranges.back().verdict.action == verdict.action;
    if (!same) {
      ranges.push_back({number, verdict});
    }
  }
  return ranges;
}

Program compile_tree(std::span<const Range> ranges) {
  if (ranges.size() == 1) {
    return compile_verdict(ranges[0].verdict);
  }
  const std::size_t middle = ranges.size() / 2;
  const Program below = compile_tree(ranges.first(middle));
  const Program above = compile_tree(ranges.subspan(middle));
  Program program;
  if (below.size() <= kMaxConditionalJump) {
    program.push_back(jump(BPF_JMP | BPF_JGE | BPF_K, ranges[middle].first, below.size(), 0));
  } else {
    program.push_back(jump(BPF_JMP | BPF_JGE | BPF_K, ranges[middle].first, 0, 1));
    program.push_back(statement(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(below.size())));
  }
  append(program, below);
  append(program, above);
  return program;
}

}  // namespace

std::vector<sock_filter> compile_seccomp_program(const SyscallTable& table,
                                                 std::uint32_t default_action) {
  CHECK(table.size() <= kSyscallTableSize);
  Program program = {
      statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      jump(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      answer(SECCOMP_RET_KILL_PROCESS),
      statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  append(program, compile_tree(merge_ranges(table, default_action)));
  CHECK(program.size() <= BPF_MAXINSNS);
  return program;
}

}  // namespace atl::runtime::namespaces
