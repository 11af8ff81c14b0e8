#include "runtime/namespaces/seccomp_policy.h"

#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/memfd.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>

#include <cerrno>
#include <string_view>

#include "base/strings.h"

namespace atl::runtime::namespaces {
namespace {

constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t answer_errno(int error) {
  return SECCOMP_RET_ERRNO | (static_cast<std::uint32_t>(error) & SECCOMP_RET_DATA);
}

// Names that this architecture lacks are skipped.
constexpr std::string_view kAllowed =
    // files and directories
    "access chdir chmod chown chroot close close_range copy_file_range creat dup dup2 dup3 "
    "faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchown fchownat fcntl "
    "fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync ftruncate "
    "futimesat getcwd getdents getdents64 getxattr inotify_add_watch inotify_init inotify_init1 "
    "inotify_rm_watch lchown lgetxattr link linkat listxattr llistxattr lremovexattr lseek "
    "lsetxattr lstat mkdir mkdirat mknod mknodat newfstatat open openat openat2 pipe pipe2 "
    "pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv "
    "removexattr rename renameat renameat2 rmdir sendfile setxattr splice stat statfs statx "
    "symlink symlinkat sync sync_file_range syncfs tee truncate umask unlink unlinkat utime "
    "utimensat utimes vmsplice write writev "
    // memory
    "brk get_robust_list madvise memfd_secret mincore mlock mlock2 mlockall "
    "mprotect mremap msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect "
    "process_madvise process_mrelease process_vm_readv process_vm_writev remap_file_pages "
    "membarrier "
    // processes, signals, identity
    "alarm arch_prctl capget capset execve execveat exit exit_group fork getegid geteuid getgid "
    "getgroups getitimer getpgid getpgrp getpid getppid getpriority getresgid getresuid "
    "getrlimit getrusage getsid gettid getuid ioprio_get ioprio_set kcmp kill landlock_add_rule "
    "landlock_create_ruleset landlock_restrict_self pause pidfd_getfd pidfd_open "
    "pidfd_send_signal prctl prlimit64 ptrace restart_syscall rseq rt_sigaction rt_sigpending "
    "rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait "
    "rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity "
    "sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity "
    "sched_setattr sched_setparam sched_setscheduler sched_yield seccomp set_robust_list "
    "set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid "
    "setpriority setregid setresgid setresuid setreuid setrlimit setsid setuid sigaltstack "
    "signalfd signalfd4 tgkill times tkill vfork wait4 waitid getcpu sysinfo uname getrandom "
    // waiting and time
    "adjtimex clock_adjtime clock_getres clock_gettime clock_nanosleep epoll_create "
    "epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old "
    "eventfd eventfd2 futex futex_waitv gettimeofday nanosleep poll ppoll pselect6 select time "
    "timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create "
    "timerfd_gettime timerfd_settime "
    // sockets (by family, type and protocol: see socket_verdict)
    "accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg "
    "recvmsg sendmmsg sendmsg sendto setsockopt shutdown "
    // System V and POSIX queues, semaphores, shared memory (own ipc namespace)
    "mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv "
    "msgsnd semctl semget semop semtimedop shmat shmctl shmdt";

// Newer than the library's list of names; these have the same number on every architecture.
constexpr unsigned kAllowedNumbers[] = {
    451,                 // cachestat
    452,                 // fchmodat2
    453,                 // map_shadow_stack
    454, 455, 456,       // futex_wake, futex_wait, futex_requeue
    462,                 // mseal
    463, 464, 465, 466,  // setxattrat, getxattrat, listxattrat, removexattrat
};

constexpr std::string_view kForbidden =
    "acct add_key bpf clock_settime delete_module fanotify_init fanotify_mark finit_module "
    "fsconfig fsmount fsopen fspick get_mempolicy init_module io_uring_enter io_uring_register "
    "io_uring_setup ioperm iopl kexec_file_load kexec_load keyctl lookup_dcookie mbind "
    "migrate_pages modify_ldt mount mount_setattr move_mount move_pages name_to_handle_at "
    "nfsservctl open_by_handle_at open_tree perf_event_open pivot_root quotactl quotactl_fd "
    "reboot request_key set_mempolicy set_mempolicy_home_node setdomainname sethostname setns "
    "settimeofday swapoff swapon sysfs syslog _sysctl umount umount2 uselib userfaultfd ustat "
    "vhangup vm86 vm86old";
// The old asynchronous file calls (io_setup and its family) answer ENOSYS: their rings count
// against one budget for the whole host, fs.aio-max-nr, and programs fall back to threads.
// clone3 hides its flags behind a pointer, where no filter can look: it answers ENOSYS (the
// default), and the C library falls back to clone.

constexpr std::uint32_t kNewNamespaceFlags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                             CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                                             CLONE_NEWNET;
constexpr std::uint32_t kNewTimeFlag = 0x80;  // CLONE_NEWTIME; in clone these bits are a signal

ArgumentRule equals(unsigned argument, std::uint32_t value, std::uint32_t action) {
  return {{{argument, Condition::Kind::kEquals, value}}, action};
}
ArgumentRule any_bits(unsigned argument, std::uint32_t bits, std::uint32_t action) {
  return {{{argument, Condition::Kind::kAnyBits, bits}}, action};
}

// Whatever the kernel does not know at once it asks a module for, in the host's name. So only the
// combinations of type and protocol that are built in come through: TCP, UDP and echo. The low
// bits of the type tell stream (1), datagram (2) and raw (3); flags lie above them.
void add_internet_rules(Verdict& verdict, std::uint32_t family, std::uint32_t echo_protocol) {
  constexpr std::uint32_t kStreamBit = 1;
  constexpr std::uint32_t kDatagramBit = 2;
  constexpr std::uint32_t kOtherTypeBits = 0xC;
  using enum Condition::Kind;
  const Condition ours{0, kEquals, family};
  const auto add = [&](std::vector<Condition> conditions, std::uint32_t action) {
    verdict.rules.push_back({std::move(conditions), action});
  };
  add({ours, {1, kAnyBits, kOtherTypeBits}}, answer_errno(ESOCKTNOSUPPORT));
  add({ours, {1, kAnyBits, kStreamBit}, {1, kAnyBits, kDatagramBit}}, answer_errno(EPERM));
  for (const std::uint32_t protocol : {0U, std::uint32_t{IPPROTO_TCP}}) {
    add({ours, {1, kAnyBits, kStreamBit}, {2, kEquals, protocol}}, kAllow);
  }
  for (const std::uint32_t protocol : {0U, std::uint32_t{IPPROTO_UDP}, echo_protocol}) {
    add({ours, {1, kAnyBits, kDatagramBit}, {2, kEquals, protocol}}, kAllow);
  }
  add({ours}, answer_errno(EPROTONOSUPPORT));
}

Verdict socket_verdict() {
  Verdict verdict{answer_errno(EAFNOSUPPORT), {equals(0, AF_UNIX, kAllow)}};
  add_internet_rules(verdict, AF_INET, IPPROTO_ICMP);
  add_internet_rules(verdict, AF_INET6, IPPROTO_ICMPV6);
  // Audit and other netlink families answer "not supported", which PAM takes for a kernel without
  // audit; EPERM would make it refuse logins.
  verdict.rules.push_back(
      {{{0, Condition::Kind::kEquals, AF_NETLINK}, {2, Condition::Kind::kEquals, NETLINK_ROUTE}},
       kAllow});
  verdict.rules.push_back(equals(0, AF_NETLINK, answer_errno(EPROTONOSUPPORT)));
  return verdict;
}

// A volume is a bare btrfs: a subvolume made in one would have no limit, be in no snapshot and keep
// the volume from being deleted. Only what shares blocks between files comes through, which copying
// programs use; the rest is answered as by a file system that does not know it.
void add_btrfs_rules(Verdict& verdict) {
  constexpr std::uint32_t kKindBits = 0xFF00;
  for (const unsigned long command : {FICLONE, FICLONERANGE, FIDEDUPERANGE}) {
    verdict.rules.push_back(equals(1, static_cast<std::uint32_t>(command), kAllow));
  }
  verdict.rules.push_back(
      {{{1, Condition::Kind::kEquals, BTRFS_IOCTL_MAGIC << 8, kKindBits}}, answer_errno(ENOTTY)});
}

struct CheckedCall {
  std::string_view name;
  Verdict verdict;
};

std::vector<CheckedCall> make_checked_calls() {
  constexpr std::uint32_t kRefuse = answer_errno(EPERM);
  std::vector<CheckedCall> calls;
  calls.push_back({"clone", {kAllow, {any_bits(0, kNewNamespaceFlags, kRefuse)}}});
  calls.push_back({"unshare", {kAllow, {any_bits(0, kNewNamespaceFlags | kNewTimeFlag, kRefuse)}}});

  calls.push_back({"socket", socket_verdict()});
  calls.push_back({"socketpair", {answer_errno(EAFNOSUPPORT), {equals(0, AF_UNIX, kAllow)}}});

  // Huge pages come from a pool of the whole host that no limit of a cell counts. The answers are
  // those of a host whose pool is empty.
  calls.push_back({"mmap", {kAllow, {any_bits(3, MAP_HUGETLB, answer_errno(ENOMEM))}}});
  // Programs find out whether there are memory files at all by asking with every flag there is and
  // expect to be told that this is nonsense (Chromium ends otherwise).
  constexpr std::uint32_t kKnownMemoryFileFlags = 0xFC00001F;  // with the sizes of huge pages
  calls.push_back({"memfd_create",
                   {kAllow,
                    {any_bits(1, ~kKnownMemoryFileFlags, answer_errno(EINVAL)),
                     any_bits(1, MFD_HUGETLB, answer_errno(ENOMEM))}}});
  calls.push_back({"shmget", {kAllow, {any_bits(2, SHM_HUGETLB, answer_errno(ENOMEM))}}});

  // Typing into a terminal on behalf of others, the console's selection buffer, line disciplines
  // (old, rarely used kernel code), redirecting the console.
  Verdict ioctl{kAllow,
                {equals(1, 0x5412, kRefuse), equals(1, 0x541C, kRefuse), equals(1, 0x5423, kRefuse),
                 equals(1, 0x541D, kRefuse)}};
  add_btrfs_rules(ioctl);
  calls.push_back({"ioctl", ioctl});
  // Linux, 32-bit addresses (8), uname26 (0x20000), no address randomisation (gdb), "tell me".
  Verdict personality{kRefuse, {}};
  for (const std::uint32_t value : {0x0U, 0x8U, 0x20000U, 0x20008U, 0x40000U, 0xFFFFFFFFU}) {
    personality.rules.push_back(equals(0, value, kAllow));
  }
  calls.push_back({"personality", personality});
  return calls;
}

Result<> set_verdict(SyscallTable& table, std::string_view name, const Verdict& verdict) {
  const int number = ::seccomp_syscall_resolve_name(std::string{name}.c_str());
  if (number < 0) {
    return {};  // not a call of this architecture
  }
  if (static_cast<std::size_t>(number) >= table.size()) {
    return fail(Code::kInternal, concat("system call ", name, " is outside the table"));
  }
  table[static_cast<std::size_t>(number)] = verdict;
  return {};
}

}  // namespace

Result<SyscallTable> make_syscall_table() {
  SyscallTable table(kSyscallTableSize, Verdict{answer_errno(ENOSYS), {}});
  for (const std::string_view name : split(kForbidden, ' ')) {
    TRY_DO(set_verdict(table, name, {answer_errno(EPERM), {}}));
  }
  for (const std::string_view name : split(kAllowed, ' ')) {
    TRY_DO(set_verdict(table, name, {kAllow, {}}));
  }
  for (const unsigned number : kAllowedNumbers) {
    table[number] = {kAllow, {}};
  }
  for (const CheckedCall& call : make_checked_calls()) {
    TRY_DO(set_verdict(table, call.name, call.verdict));
  }
  return table;
}

Result<std::vector<sock_filter>> make_seccomp_filter() {
  TRY(const SyscallTable table, make_syscall_table());
  return compile_seccomp_program(table, answer_errno(ENOSYS));
}

}  // namespace atl::runtime::namespaces
