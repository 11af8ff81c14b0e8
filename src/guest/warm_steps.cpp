#include "guest/warm_steps.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <vector>

#include "base/strings.h"
#include "guest/warm_machine.h"

#ifndef SYS_rseq
#define SYS_rseq 334
#endif

namespace atl::guest {
namespace {

constexpr std::uint64_t kUserEnd = 0x7ffffffff000;
// Programs with fixed addresses begin at 4 MiB, all others far above.
constexpr std::uint64_t kFirstPlace = 0x10000000;
constexpr std::uint64_t kPlaceDistance = 0x1000000;
constexpr std::uint64_t kLastPlace = 0x4000000000;
constexpr std::uint64_t kStackBytes = 2 * kPageBytes;
constexpr std::uint64_t kSignalSetBytes = 8;
constexpr std::uint64_t kCodeBytes = kPageBytes;

std::uint64_t round_up(std::uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

class Steps {
 public:
  Steps(const WarmImage& image, RestoreDescriptors descriptors)
      : image_(image), descriptors_(descriptors) {}

  Result<RestorePlan> make(std::uint64_t kernel_pages);

 private:
  void add(long number, std::array<std::uint64_t, 6> arguments, std::uint64_t flags = 0) {
    steps_.push_back({static_cast<std::uint64_t>(number), arguments, flags});
  }
  // An address in the data, which lies behind the steps.
  std::uint64_t keep(std::string_view bytes) {
    const std::uint64_t at = data_start_ + data_.size();
    data_ += bytes;
    data_.resize((data_.size() + 8) / 8 * 8);  // and a zero at the end of every text
    return at;
  }
  std::uint64_t keep(const void* bytes, std::size_t size) {
    return keep(std::string_view{static_cast<const char*>(bytes), size});
  }
  std::size_t count_steps() const;
  bool is_free(std::uint64_t start, std::uint64_t bytes) const;
  Result<std::uint64_t> find_place(std::uint64_t bytes) const;
  void park(std::uint64_t kernel_pages, std::uint64_t parking);
  void clear(std::uint64_t start, std::uint64_t bytes);
  void map(const Mapping& mapping);
  void map_file(const Mapping& mapping);
  void fill(const Mapping& mapping, std::uint64_t extra_flags);
  void unpark(std::uint64_t parking);
  void set_memory_fields();
  void set_signals();
  void set_thread();
  void set_descriptors();

  const WarmImage& image_;
  const RestoreDescriptors descriptors_;
  std::vector<RestoreStep> steps_;
  std::string data_;
  std::uint64_t data_start_ = 0;
  std::optional<std::uint32_t> open_path_;
  bool open_for_writing_ = false;
};

// The most there can be; the data lies behind them.
std::size_t Steps::count_steps() const {
  constexpr std::size_t kOthers = 32;
  return kOthers + image_.mappings.size() * 3 + image_.kernel_mappings.size() * 2 +
         image_.signal_actions.size() + image_.descriptors.size();
}

bool Steps::is_free(std::uint64_t start, std::uint64_t bytes) const {
  const auto apart = [&](const auto& mapping) {
    return start + bytes <= mapping.start || mapping.start + mapping.bytes <= start;
  };
  return std::ranges::all_of(image_.mappings, apart) &&
         std::ranges::all_of(image_.kernel_mappings, apart);
}

Result<std::uint64_t> Steps::find_place(std::uint64_t bytes) const {
  for (std::uint64_t place = kFirstPlace; place < kLastPlace; place += kPlaceDistance) {
    if (is_free(place, bytes)) {
      return place;
    }
  }
  return fail(Code::kResourceExhausted, "the image leaves no room to work in", "no_room");
}

void Steps::park(std::uint64_t kernel_pages, std::uint64_t parking) {
  for (const KernelMapping& mapping : image_.kernel_mappings) {
    const std::uint64_t now = kernel_pages + mapping.start - image_.kernel_mappings[0].start;
    add(SYS_mremap, {now, mapping.bytes, mapping.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, parking, 0});
    parking += mapping.bytes;
  }
}

void Steps::clear(std::uint64_t start, std::uint64_t bytes) {
  add(SYS_munmap, {0, start});
  add(SYS_munmap, {start + bytes, kUserEnd - start - bytes});
}

void Steps::unpark(std::uint64_t parking) {
  for (const KernelMapping& mapping : image_.kernel_mappings) {
    add(SYS_mremap,
        {parking, mapping.bytes, mapping.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, mapping.start, 0});
    parking += mapping.bytes;
  }
}

void Steps::map_file(const Mapping& mapping) {
  const bool shared = mapping.kind == MappingKind::kSharedFile;
  const bool writes = shared && (mapping.protection & PROT_WRITE) != 0;
  if (open_path_ != mapping.path || open_for_writing_ != writes) {
    if (open_path_) {
      add(SYS_close, {}, kUseFirst);
    }
    const std::uint64_t flags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    add(SYS_openat,
        {static_cast<std::uint64_t>(AT_FDCWD), keep(image_.files[mapping.path].path),
         flags | static_cast<std::uint64_t>(writes ? O_RDWR : O_RDONLY)},
        kKeepResult);
    open_path_ = mapping.path;
    open_for_writing_ = writes;
  }
  add(SYS_mmap,
      {mapping.start, mapping.bytes, mapping.protection,
       static_cast<std::uint64_t>(MAP_FIXED | (shared ? MAP_SHARED : MAP_PRIVATE | MAP_NORESERVE)),
       0, mapping.offset},
      kUseFifth);
}

void Steps::fill(const Mapping& mapping, std::uint64_t extra_flags) {
  add(SYS_mmap, {mapping.start, mapping.bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE | extra_flags, ~0ULL, 0});
  add(SYS_pread64,
      {static_cast<std::uint64_t>(descriptors_.memory), mapping.start, mapping.bytes,
       mapping.offset},
      kThirdIsResult);
  if (mapping.protection != (PROT_READ | PROT_WRITE)) {
    add(SYS_mprotect, {mapping.start, mapping.bytes, mapping.protection});
  }
}

void Steps::map(const Mapping& mapping) {
  switch (mapping.kind) {
    case MappingKind::kAnonymous:
      add(SYS_mmap, {mapping.start, mapping.bytes, mapping.protection,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, ~0ULL, 0});
      return;
    case MappingKind::kImage:
      add(SYS_mmap, {mapping.start, mapping.bytes, mapping.protection,
                     MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                     static_cast<std::uint64_t>(descriptors_.memory), mapping.offset});
      return;
    case MappingKind::kCopy:
      fill(mapping, 0);
      return;
    case MappingKind::kStack:
      fill(mapping, MAP_GROWSDOWN | MAP_STACK);
      return;
    case MappingKind::kFile:
    case MappingKind::kSharedFile:
      map_file(mapping);
      return;
  }
}

void Steps::set_memory_fields() {
  // prctl_mm_map, as the kernel has it.
  std::array<std::uint64_t, kMemoryFieldCount + 2> map{};
  std::ranges::copy(image_.memory_fields, map.begin());
  map[kMemoryFieldCount] = keep(image_.auxiliary_vector);
  constexpr std::uint64_t kSameProgram = 0xffffffffULL << 32;
  map[kMemoryFieldCount + 1] = kSameProgram | image_.auxiliary_vector.size();
  add(SYS_prctl, {PR_SET_MM, PR_SET_MM_MAP, keep(map.data(), sizeof map), sizeof map});
  add(SYS_prctl, {PR_SET_NAME, keep(image_.name)});
}

void Steps::set_signals() {
  for (const SignalAction& action : image_.signal_actions) {
    add(SYS_rt_sigaction,
        {action.signal, keep(action.action.data(), sizeof action.action), 0, kSignalSetBytes});
  }
  const std::uint64_t stack_flags = image_.signal_stack[1] & 0xffffffff;
  if ((stack_flags & SS_DISABLE) == 0) {
    add(SYS_sigaltstack, {keep(image_.signal_stack.data(), sizeof image_.signal_stack), 0});
  }
}

void Steps::set_thread() {
  if (image_.thread_id_address != 0) {
    add(SYS_set_tid_address, {image_.thread_id_address, 0, 0, 0, 0, image_.thread_id_address},
        kStoreResult);
  }
  if (image_.robust_list != 0) {
    add(SYS_set_robust_list, {image_.robust_list, image_.robust_list_bytes});
  }
  if (image_.sequence_address != 0) {
    add(SYS_rseq, {image_.sequence_address, image_.sequence_bytes, 0, image_.sequence_signature});
  }
}

void Steps::set_descriptors() {
  if (open_path_) {
    add(SYS_close, {}, kUseFirst);
  }
  for (const Descriptor& descriptor : image_.descriptors) {
    if ((descriptor.flags & O_CLOEXEC) != 0) {
      add(SYS_fcntl, {descriptor.number, F_SETFD, FD_CLOEXEC});
    }
  }
  add(SYS_close, {static_cast<std::uint64_t>(descriptors_.memory)});
  add(SYS_close, {static_cast<std::uint64_t>(descriptors_.plan)});
}

Result<RestorePlan> Steps::make(std::uint64_t kernel_pages) {
  const std::string_view code = restorer_code();
  if (code.empty() || code.size() > kCodeBytes) {
    return fail(Code::kUnimplemented, "this machine cannot clone processes", "unsupported_machine");
  }
  constexpr std::size_t kDataEstimate = 8192;
  std::size_t text_bytes = kDataEstimate;
  for (const Mapping& mapping : image_.mappings) {
    const bool file =
        mapping.kind == MappingKind::kFile || mapping.kind == MappingKind::kSharedFile;
    text_bytes += file ? image_.files[mapping.path].path.size() + 16 : 0;
  }
  std::uint64_t kernel_bytes = 0;
  for (const KernelMapping& mapping : image_.kernel_mappings) {
    kernel_bytes += mapping.bytes;
  }
  const std::uint64_t steps_offset = kCodeBytes + kStackBytes;
  const std::uint64_t data_offset = steps_offset + count_steps() * sizeof(RestoreStep);
  const std::uint64_t content_bytes = round_up(data_offset + text_bytes);
  RestorePlan plan;
  plan.bytes = content_bytes + kernel_bytes;
  TRY(plan.start, find_place(plan.bytes));
  data_start_ = plan.start + data_offset;
  const std::uint64_t parking = plan.start + content_bytes;

  park(kernel_pages, parking);
  clear(plan.start, plan.bytes);
  for (const Mapping& mapping : image_.mappings) {
    map(mapping);
  }
  unpark(parking);
  set_descriptors();
  set_memory_fields();
  set_signals();
  set_thread();
  CHECK(steps_.size() <= count_steps() && data_offset + data_.size() <= content_bytes);

  plan.content.resize(content_bytes);
  plan.content.replace(0, code.size(), code);
  plan.content.replace(steps_offset, steps_.size() * sizeof(RestoreStep),
                       reinterpret_cast<const char*>(steps_.data()),
                       steps_.size() * sizeof(RestoreStep));
  plan.content.replace(data_offset, data_.size(), data_);
  plan.code = plan.start;
  plan.stack_top = plan.start + steps_offset;
  plan.first_step = plan.start + steps_offset;
  plan.last_step = plan.first_step + steps_.size() * sizeof(RestoreStep);
  return plan;
}

}  // namespace

Result<RestorePlan> make_restore_plan(const WarmImage& image, RestoreDescriptors descriptors,
                                      std::uint64_t kernel_pages) {
  return Steps{image, descriptors}.make(kernel_pages);
}

}  // namespace atl::guest
