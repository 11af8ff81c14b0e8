#include "node/uid_ranges.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>

#include "base/fd.h"
#include "base/log.h"
#include "base/strings.h"

namespace atl::node {
namespace {

static_assert(static_cast<std::uint64_t>(kFirstHostId) +
                  static_cast<std::uint64_t>(kIdsPerBlock) * kBlockCount ==
              0xF0000000);

std::optional<std::uint32_t> block_of(std::uint64_t host_id) {
  if (host_id < kFirstHostId || host_id >= 0xF0000000ULL) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>((host_id - kFirstHostId) / kIdsPerBlock);
}

// "Uid:\t1000\t1000\t1000\t1000" of a status file, and the same for groups.
void add_ids(std::string_view line, std::set<std::uint32_t>& blocks) {
  for (const std::string_view field : split(line, '\t')) {
    if (const auto id = parse_u64(trim(field))) {
      if (const auto block = block_of(*id)) {
        blocks.insert(*block);
      }
    }
  }
}

Result<Fd> lock_directory(const std::string& path) {
  Fd fd{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!fd) {
    return fail_errno(concat("opening ", path));
  }
  while (::flock(fd.get(), LOCK_EX) != 0) {  // held for milliseconds by whoever has it
    if (errno != EINTR) {
      return fail_errno(concat("locking ", path));
    }
  }
  return fd;
}

// Whether an installation runs on this data directory. A missing one has nobody.
bool is_data_dir_locked(const std::string& data_dir) {
  const Fd fd{::open(concat(data_dir, "/lock").c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC)};
  return fd && ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0;
}

}  // namespace

Result<std::set<std::uint32_t>> scan_used_blocks() {
  const std::unique_ptr<DIR, decltype(&::closedir)> proc{::opendir("/proc"), &::closedir};
  if (proc == nullptr) {
    return fail_errno("opening /proc");
  }
  std::set<std::uint32_t> blocks;
  while (const dirent* entry = ::readdir(proc.get())) {
    if (!parse_u64(entry->d_name)) {
      continue;
    }
    const auto status = read_file(concat("/proc/", entry->d_name, "/status"));
    if (!status) {
      continue;  // it has ended
    }
    for (const std::string_view line : split(*status, '\n')) {
      if (line.starts_with("Uid:") || line.starts_with("Gid:")) {
        add_ids(line, blocks);
      }
    }
  }
  return blocks;
}

Result<std::unique_ptr<UidRanges>> UidRanges::open(Options options) {
  std::unique_ptr<UidRanges> ranges{new UidRanges{std::move(options)}};
  TRY_DO(ranges->claim_own_blocks());
  if (ranges->blocks_.empty()) {  // here, because the search is too slow for a create
    TRY_DO(ranges->claim_next_block());
  }
  return ranges;
}

std::string UidRanges::claim_path(std::uint32_t block) const {
  return concat(options_.claims_dir, "/", block);
}

void UidRanges::add_block(std::uint32_t block) {
  blocks_.insert(block);
  for (std::uint32_t slot = 0; slot < kSlotsPerBlock; ++slot) {
    free_.push_back(kFirstHostId + block * kIdsPerBlock + slot * kSlotDistance);
  }
}

Result<> UidRanges::claim_own_blocks() {
  TRY(const Fd lock, lock_directory(options_.claims_dir));
  for (std::uint32_t block = 0; block < kBlockCount; ++block) {
    TRY(const std::string owner, read_owner(block));
    if (owner == options_.data_dir) {
      add_block(block);
    }
  }
  return {};
}

// Nobody lives in the block: no process, and no installation that might start one.
Result<bool> UidRanges::is_abandoned(std::uint32_t block, const std::string& owner,
                                     std::optional<std::set<std::uint32_t>>& used) const {
  if (!owner.empty() && is_data_dir_locked(owner)) {
    return false;
  }
  if (!used) {
    TRY(used, options_.used_blocks());
  }
  return !used->contains(block);
}

Result<std::string> UidRanges::read_owner(std::uint32_t block) const {
  auto text = read_file(claim_path(block));
  if (!text) {
    return text.error().code == Code::kNotFound ? Result<std::string>{} : text;
  }
  return std::string{trim(*text)};
}

Result<> UidRanges::write_claim(std::uint32_t block) {
  TRY_DO(replace_file(claim_path(block), options_.data_dir + "\n", {.mode = 0644}));
  add_block(block);
  return {};
}

Result<> UidRanges::claim_next_block() {
  TRY(const Fd lock, lock_directory(options_.claims_dir));
  std::optional<std::set<std::uint32_t>> used;
  for (std::uint32_t block = 0; block < kBlockCount; ++block) {
    if (blocks_.contains(block)) {
      continue;
    }
    TRY(const std::string owner, read_owner(block));
    TRY(const bool abandoned, is_abandoned(block, owner, used));
    if (abandoned) {
      if (!owner.empty()) {
        LOG_INFO("took over host ids of an installation that is gone", {"block", block},
                 {"owner", owner});
      }
      return write_claim(block);
    }
  }
  return fail(Code::kResourceExhausted,
              "all host id ranges are in use: too many sandboxes run on this host");
}

Result<std::uint32_t> UidRanges::take() {
  const std::lock_guard guard{mutex_};
  if (free_.empty()) {
    TRY_DO(claim_next_block());
  }
  const std::uint32_t base = free_.front();
  free_.pop_front();
  taken_.insert(base);
  return base;
}

Result<> UidRanges::take_exactly(std::uint32_t base) {
  const auto block = block_of(base);
  if (!block || block_of(std::uint64_t{base} + kIdsPerSlot - 1) != block) {
    return fail(Code::kInvalidArgument, concat("no id range begins at ", base));
  }
  const std::lock_guard guard{mutex_};
  if (!blocks_.contains(*block)) {
    TRY(const Fd lock, lock_directory(options_.claims_dir));
    TRY(const std::string owner, read_owner(*block));
    if (!owner.empty()) {
      return fail(Code::kAborted, concat("the id range at ", base, " belongs to ", owner));
    }
    TRY_DO(write_claim(*block));
  }
  const auto overlaps = [base](std::uint32_t other) {
    return (other > base ? other - base : base - other) < kIdsPerSlot;
  };
  if (std::ranges::any_of(taken_, overlaps)) {
    return fail(Code::kAlreadyExists, concat("the id range at ", base, " is in use"));
  }
  // An earlier build's slots began elsewhere: whatever has an id of it is out of use.
  std::erase_if(free_, overlaps);
  taken_.insert(base);
  return {};
}

void UidRanges::give_back(std::uint32_t base) {
  const std::lock_guard guard{mutex_};
  CHECK(taken_.erase(base) == 1);
  if ((base - kFirstHostId) % kIdsPerBlock % kSlotDistance == 0) {
    free_.push_back(base);
  }  // else an earlier build's: what it overlapped is free again at the next start
}

Result<> UidRanges::close() {
  const std::lock_guard guard{mutex_};
  std::set<std::uint32_t> used;
  for (const std::uint32_t base : taken_) {
    used.insert(*block_of(base));
  }
  if (!used.empty()) {
    LOG_ERROR("stopped with host ids in use; their claims stay", {"ranges", taken_.size()},
              {"blocks", used.size()});
  }
  TRY(const Fd lock, lock_directory(options_.claims_dir));
  for (const std::uint32_t block : blocks_) {
    if (used.contains(block)) {
      continue;
    }
    if (::unlink(claim_path(block).c_str()) != 0 && errno != ENOENT) {
      return fail_errno(concat("removing ", claim_path(block)));
    }
  }
  blocks_.clear();
  free_.clear();
  taken_.clear();
  return {};
}

}  // namespace atl::node
