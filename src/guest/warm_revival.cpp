#include "guest/warm_revival.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/strings.h"
#include "guest/warm_machine.h"

namespace atl::guest {
namespace {

constexpr int kSystemCallStop = 0x80;  // with PTRACE_O_TRACESYSGOOD
constexpr int kSignalBits = 0x7f;

}  // namespace

Revival::Revival(WarmImage image, Fd plan_file, Stub stub)
    : image_(std::move(image)),
      plan_file_(std::move(plan_file)),
      spawned_(std::move(stub.spawned)),
      pid_(spawned_.pid),
      status_(std::move(stub.status)),
      descriptors_(stub.descriptors) {}

Result<Revival> Revival::start(const SpawnRequest& request, WarmImage image, Fd memory) {
  if (!kWarmForks || image.machine != machine_name()) {
    return fail(Code::kUnimplemented, "this machine cannot revive the image",
                "unsupported_machine");
  }
  struct stat file{};
  if (::fstat(memory.get(), &file) != 0 ||
      static_cast<std::uint64_t>(file.st_size) != image.memory_bytes) {
    return fail(Code::kInvalidArgument, "the image does not have the memory that it tells of",
                "malformed");
  }
  Fd plan{::memfd_create("atoll-plan", MFD_CLOEXEC)};
  if (!plan) {
    return fail_errno("making the plan of a process");
  }
  TRY(auto stub, start_stub(request, image, memory, plan));
  return Revival{std::move(image), std::move(plan), std::move(stub)};
}

bool Revival::on_stop(int stop) {
  auto over = advance(stop);
  if (over) {
    return *over;
  }
  (void)write_all(status_.get(), encode_start_failure(over.error()));
  ::kill(pid_, SIGKILL);
  return true;
}

Result<> Revival::check_stop(int stop) const {
  bool expected = false;
  switch (stage_) {
    case Stage::kBeginning:
      expected = stop == SIGSTOP;  // somebody else's does no harm: its own fails then
      break;
    case Stage::kExecuting:
      expected = stop == (SIGTRAP | (PTRACE_EVENT_EXEC << 8));
      break;
    case Stage::kLeaving:
      expected = stop == (SIGTRAP | kSystemCallStop);
      break;
    default: {
      siginfo_t info{};
      expected = stop == SIGTRAP && ::ptrace(PTRACE_GETSIGINFO, pid_, nullptr, &info) == 0 &&
                 info.si_code > 0;  // from the processor; no sender can say so
    }
  }
  if (!expected) {
    return fail(Code::kAborted,
                concat("signal ", stop & kSignalBits, " ended it while it was being revived"),
                "revival_failed");
  }
  return {};
}

Result<bool> Revival::advance(int stop) {
  TRY_DO(check_stop(stop));
  switch (stage_) {
    case Stage::kBeginning:
      TRY_DO(execute());
      stage_ = Stage::kExecuting;
      return false;
    case Stage::kExecuting:
      TRY_DO(leave_exec());
      stage_ = Stage::kLeaving;
      return false;
    case Stage::kLeaving:
      TRY_DO(map_plan());
      stage_ = Stage::kMapping;
      return false;
    case Stage::kMapping:
      TRY_DO(restore());
      stage_ = Stage::kRestoring;
      return false;
    case Stage::kRestoring:
      TRY_DO(unmap_plan());
      stage_ = Stage::kUnmapping;
      return false;
    case Stage::kUnmapping:
      TRY_DO(let_go());
      return true;
  }
  return true;
}

Result<> Revival::execute() {
  constexpr auto kOptions = PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;
  if (::ptrace(PTRACE_SETOPTIONS, pid_, nullptr, kOptions) != 0 ||
      ::ptrace(PTRACE_CONT, pid_, nullptr, nullptr) != 0) {
    return fail_errno("tracing a process");
  }
  return {};
}

// The kernel has still to write the result of the call into the registers.
Result<> Revival::leave_exec() {
  if (::ptrace(PTRACE_SYSCALL, pid_, nullptr, nullptr) != 0) {
    return fail_errno("tracing a process");
  }
  return {};
}

Result<> Revival::map_plan() {
  TRY(const std::uint64_t kernel_pages, find_kernel_pages(pid_));
  TRY(plan_, make_restore_plan(image_, descriptors_, kernel_pages));
  TRY_DO(write_all(plan_file_.get(), plan_.content));
  plan_.content = {};
  TRY_DO(plant_call(pid_));
  return begin_call(pid_, {SYS_mmap,
                           {plan_.start, plan_.bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                            MAP_PRIVATE | MAP_FIXED_NOREPLACE,
                            static_cast<std::uint64_t>(descriptors_.plan), 0}});
}

Result<> Revival::restore() {
  TRY(const std::int64_t mapped, call_result(pid_));
  if (mapped != static_cast<std::int64_t>(plan_.start)) {
    return fail(errno_error("mapping the plan of a process", static_cast<int>(-mapped)));
  }
  return begin_restorer(pid_, plan_.code, plan_.stack_top, plan_.first_step, plan_.last_step);
}

Result<> Revival::unmap_plan() {
  TRY(const auto result, restorer_result(pid_));
  if (result.error_number != 0) {
    const std::uint64_t step = (result.step_address - plan_.first_step) / sizeof(RestoreStep);
    return fail(errno_error(concat("rebuilding the memory of a process, step ", step),
                            result.error_number));
  }
  return begin_unmap(pid_, plan_.start, plan_.bytes);
}

Result<> Revival::let_go() {
  TRY_DO(write_registers(pid_, image_));
  if (::ptrace(PTRACE_SETSIGMASK, pid_, sizeof image_.signal_mask, &image_.signal_mask) < 0 ||
      ::ptrace(PTRACE_DETACH, pid_, nullptr, nullptr) != 0) {
    return fail_errno("letting a process go");
  }
  return {};
}

}  // namespace atl::guest
