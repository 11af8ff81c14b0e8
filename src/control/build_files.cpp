#include "control/build_files.h"

#include <algorithm>

#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

constexpr std::size_t kMaxFilesPerTeam = 256;
constexpr std::uint64_t kMaxFileBytesPerTeam = 4ULL << 30;
constexpr std::size_t kHashDigits = 64;
constexpr UnixMillis kUnusedMs = UnixMillis{3600} * 1000;
constexpr Duration kDropInterval = std::chrono::minutes{5};

}  // namespace

Result<> check_files_hash(std::string_view hash) {
  const bool good = hash.size() == kHashDigits && std::ranges::all_of(hash, [](char c) {
                      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                    });
  return good ? Result<>{}
              : Result<>{fail(Code::kInvalidArgument, "the hash must be 64 hexadecimal digits")};
}

UploadPointer BuildFiles::find(const std::string& team_id, const std::string& hash) {
  const auto found = files_.find({team_id, hash});
  if (found == files_.end()) {
    return nullptr;
  }
  found->second.used_at = clock_.now();
  return found->second.upload;
}

Result<UploadPointer> BuildFiles::begin(const std::string& team_id, std::uint64_t bytes) {
  if (bytes > kMaxFileBytesPerTeam) {
    return fail(Code::kResourceExhausted,
                concat("the files of a step are at most ", format_quantity(kMaxFileBytesPerTeam)),
                "request_too_large");
  }
  drop_unused();
  auto begun = jobs_.begin_upload(team_id, bytes);
  while (!begun && begun.error().reason == "no_space" && drop_oldest(team_id)) {
    begun = jobs_.begin_upload(team_id, bytes);
  }
  return begun;
}

void BuildFiles::keep(const std::string& team_id, const std::string& hash, UploadPointer upload,
                      std::uint64_t bytes) {
  files_.erase({team_id, hash});
  while (!fits(team_id, bytes) && drop_oldest(team_id)) {
  }
  files_.insert_or_assign({team_id, hash}, Kept{std::move(upload), bytes, clock_.now()});
}

bool BuildFiles::fits(const std::string& team_id, std::uint64_t bytes) const {
  std::uint64_t sum = bytes;
  std::size_t count = 1;
  for (auto at = files_.lower_bound({team_id, ""});
       at != files_.end() && at->first.first == team_id; ++at) {
    sum += at->second.bytes;
    ++count;
  }
  return sum <= kMaxFileBytesPerTeam && count <= kMaxFilesPerTeam;
}

// Builds that use what is dropped keep it until they end.
bool BuildFiles::drop_oldest(const std::string& team_id) {
  auto oldest = files_.end();
  for (auto at = files_.lower_bound({team_id, ""});
       at != files_.end() && at->first.first == team_id; ++at) {
    if (oldest == files_.end() || at->second.used_at < oldest->second.used_at) {
      oldest = at;
    }
  }
  if (oldest == files_.end()) {
    return false;
  }
  files_.erase(oldest);
  return true;
}

void BuildFiles::drop_unused() {
  const UnixMillis now = clock_.now();
  std::erase_if(files_, [now](const auto& item) { return now - item.second.used_at >= kUnusedMs; });
}

Task<> BuildFiles::run() {
  for (;;) {
    CO_TRY_DO(co_await sleep_for(kDropInterval));
    drop_unused();
  }
}

}  // namespace atl::control
