#include "floor_cell.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>

#include "base/strings.h"

namespace atl::bench {
namespace {

constexpr std::uint64_t kNamespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                                      CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
constexpr const char* kReady = "r";
constexpr const char* kHierarchies[] = {"memory", "pids", "cpu"};

// What a filter of a sandbox refuses at the least.
constexpr unsigned kRefused[] = {SYS_mount,
                                 SYS_umount2,
                                 SYS_pivot_root,
                                 SYS_unshare,
                                 SYS_setns,
                                 SYS_ptrace,
                                 SYS_bpf,
                                 SYS_keyctl,
                                 SYS_add_key,
                                 SYS_request_key,
                                 SYS_reboot,
                                 SYS_swapon,
                                 SYS_swapoff,
                                 SYS_init_module,
                                 SYS_finit_module,
                                 SYS_kexec_load,
                                 SYS_open_by_handle_at,
                                 SYS_perf_event_open,
                                 SYS_userfaultfd,
                                 SYS_io_uring_setup,
                                 SYS_process_vm_readv,
                                 SYS_process_vm_writev,
                                 SYS_settimeofday,
                                 SYS_clock_settime};

bool install_filter() {
  std::vector<sock_filter> program{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
#ifdef __x86_64__
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
#else
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_AARCH64, 1, 0),
#endif
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  for (const unsigned call : kRefused) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog whole{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &whole) == 0;
}

bool drop_capabilities() {
  for (int each = 0; ::prctl(PR_CAPBSET_READ, each, 0, 0, 0) >= 0; ++each) {
    if (::prctl(PR_CAPBSET_DROP, each, 0, 0, 0) != 0) {
      return false;
    }
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return ::syscall(SYS_capset, &header, none) == 0;
}

bool change_root(const FloorPlace& place, const std::string& mine) {
  const std::string root = mine + "/root";
  const std::string options =
      concat("lowerdir=", place.rootfs, ",upperdir=", mine, "/upper,workdir=", mine, "/work");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("overlay", root.c_str(), "overlay", MS_NOSUID | MS_NODEV, options.c_str()) != 0 ||
      ::chdir(root.c_str()) != 0 ||
      ::mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0 ||
      ::mount("tmpfs", "dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,mode=755") != 0) {
    return false;
  }
  const Fd device{::open("dev/null", O_CREAT | O_WRONLY | O_CLOEXEC, 0666)};
  return device && ::mount("/dev/null", "dev/null", nullptr, MS_BIND, nullptr) == 0 &&
         ::syscall(SYS_pivot_root, ".", ".") == 0 && ::umount2(".", MNT_DETACH) == 0 &&
         ::chdir("/") == 0;
}

// A byte comes, the command runs, its status goes; an end of file ends us and with us all.
void serve(int socket, int output, char* const* command) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  char* const environment[] = {nullptr};
  char byte = 0;
  if (::write(socket, kReady, 1) != 1) {
    return;
  }
  while (::read(socket, &byte, 1) == 1) {
    pid_t child = 0;
    int status = -1;
    if (::posix_spawn(&child, command[0], &actions, nullptr, command, environment) == 0) {
      ::close(output);  // the reader sees the end when the command has ended
      ::waitpid(child, &status, 0);
    }
    if (::write(socket, &status, sizeof status) != sizeof status) {
      return;
    }
  }
}

[[noreturn]] void run_init(const FloorPlace& place, const std::string& mine, int socket, int output,
                           char* const* command) {
  char mapped = 0;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::read(socket, &mapped, 1) == 1 && change_root(place, mine) &&
      ::sethostname("floor", 5) == 0 && drop_capabilities() && install_filter()) {
    serve(socket, output, command);
  }
  ::_exit(1);
}

Result<> write_maps(pid_t pid) {
  for (const char* file : {"uid_map", "gid_map"}) {
    TRY_DO(write_existing(concat("/proc/", pid, "/", file), "0 0 65536\n"));
  }
  return {};
}

}  // namespace

Result<FloorCell> FloorCell::make(const FloorPlace& place, unsigned number) {
  FloorCell cell;
  cell.number_ = number;
  const std::string mine = concat(place.directory, "/", number);
  for (const char* part : {"", "/upper", "/work", "/root"}) {
    if (::mkdir((mine + part).c_str(), 0755) != 0) {
      return fail_errno(mine + part);
    }
  }
  int sockets[2];
  int pipes[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0 ||
      ::pipe2(pipes, O_CLOEXEC) != 0) {
    return fail_errno("socketpair or pipe");
  }
  cell.socket_ = Fd{sockets[0]};
  cell.output_ = Fd{pipes[0]};
  const Fd inside{sockets[1]};
  const Fd writer{pipes[1]};
  std::vector<char*> command;
  for (const auto& word : place.command) {
    command.push_back(const_cast<char*>(word.c_str()));
  }
  command.push_back(nullptr);
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = kNamespaces | CLONE_PIDFD;
  arguments.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  arguments.exit_signal = SIGCHLD;
  const long pid = ::syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid < 0) {
    return fail_errno("clone3");
  }
  if (pid == 0) {
    ::close(sockets[0]);
    ::close(pipes[0]);
    run_init(place, mine, sockets[1], pipes[1], command.data());
  }
  cell.pid_ = static_cast<pid_t>(pid);
  cell.pidfd_ = Fd{pidfd};
  TRY_DO(write_maps(cell.pid_));
  for (const auto& group : place.groups) {
    const std::string own = concat(group, "/", number);
    if (::mkdir(own.c_str(), 0755) != 0) {
      return fail_errno(own);
    }
    TRY_DO(write_existing(own + "/cgroup.procs", concat(cell.pid_)));
  }
  TRY_DO(write_all(cell.socket_.get(), "m"));
  return cell;
}

Result<> FloorCell::wait_ready() {
  char byte = 0;
  if (::read(socket_.get(), &byte, 1) != 1) {
    return fail(Code::kInternal, "the cell ended before it was ready");
  }
  return {};
}

Result<> FloorCell::start() {
  return write_all(socket_.get(), "c");
}

Result<bool> FloorCell::finish() {
  int status = -1;
  const ssize_t size = ::read(socket_.get(), &status, sizeof status);
  if (size == 1) {
    return false;  // ready, in a cell that was asked before
  }
  if (size != sizeof status || status != 0) {
    return fail(Code::kInternal, concat("the command ended with status ", status));
  }
  char buffer[4096];
  while (::read(output_.get(), buffer, sizeof buffer) > 0) {
  }
  return true;
}

Result<> FloorCell::destroy(const FloorPlace& place) {
  socket_.reset();
  ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  ::waitpid(pid_, nullptr, 0);
  for (const auto& group : place.groups) {
    ::rmdir(concat(group, "/", number_).c_str());
  }
  std::error_code error;
  std::filesystem::remove_all(concat(place.directory, "/", number_), error);
  return error ? fail(Code::kInternal, error.message()) : Result<>{};
}

Result<std::vector<std::string>> make_floor_groups() {
  std::vector<std::string> groups;
  const std::string name = concat("/atoll-floor-", ::getpid());
  if (::access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0) {
    (void)write_existing("/sys/fs/cgroup/cgroup.subtree_control", "+memory +pids +cpu");
    groups.push_back("/sys/fs/cgroup" + name);
  } else {
    for (const char* hierarchy : kHierarchies) {
      groups.push_back(concat("/sys/fs/cgroup/", hierarchy, name));
    }
  }
  for (const auto& group : groups) {
    if (::mkdir(group.c_str(), 0755) != 0) {
      return fail_errno(group);
    }
    (void)write_existing(group + "/cgroup.subtree_control", "+memory +pids +cpu");
  }
  return groups;
}

void remove_floor_groups(const std::vector<std::string>& groups) {
  for (const auto& group : groups) {
    ::rmdir(group.c_str());
  }
}

}  // namespace atl::bench
