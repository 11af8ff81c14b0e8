#include "control/s3_volumes.h"

#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/s3_files.h"

namespace atl::control {
namespace {

using namespace std::chrono_literals;

constexpr auto kAdmitTimeout = 20s;
constexpr std::size_t kMaxOpened = 1000;
constexpr std::size_t kMaxMeasuring = 2;
constexpr std::size_t kMaxMeasuredPages = 1000;  // a million objects; more stays unmeasured
constexpr auto kMeasureTimeout = 120s;           // of all of them
constexpr std::int64_t kMeasureAgainMs = 60'000;
constexpr std::int64_t kMeasureChangedMs = 2'000;  // when we know that it has changed

Task<std::uint64_t> sum_up(std::shared_ptr<s3::Bucket> bucket, std::string prefix) {
  std::uint64_t bytes = 0;
  std::string continuation;
  for (std::size_t page = 0; page < kMaxMeasuredPages; ++page) {
    CO_TRY(const auto listing,
           co_await bucket->list({.prefix = prefix, .continuation = continuation}));
    for (const auto& object : listing.objects) {
      bytes += object.size;
    }
    continuation = listing.next;
    if (continuation.empty()) {
      co_return bytes;
    }
  }
  co_return fail(Code::kResourceExhausted, "there are too many objects in it");
}

Task<> wait_for_ever() {
  Event never;
  co_return co_await never.wait();
}

}  // namespace

Result<S3Volumes::Opened*> S3Volumes::opened(const Volume& volume) {
  if (const auto found = opened_.find(volume.id); found != opened_.end()) {
    return &found->second;
  }
  TRY(S3Settings settings, parse_s3_settings(volume.settings));
  TRY(auto credentials, open_credentials(keyring_, volume.id, settings.sealed));
  TRY(auto bucket,
      s3::Bucket::open(surroundings_, settings.location, std::move(credentials), volume.team_id));
  if (opened_.size() >= kMaxOpened) {
    opened_.erase(opened_.begin());
  }
  Opened entry;
  entry.bucket = std::move(bucket);
  entry.prefix = std::move(settings.prefix);
  return &opened_.insert_or_assign(volume.id, std::move(entry)).first->second;
}

Task<> S3Volumes::admit(Volume& volume, secrets::Plaintext secret) {
  CO_TRY(S3Settings settings, parse_s3_settings(volume.settings));
  CO_TRY(settings.prefix, clean_s3_prefix(settings.prefix));
  CO_TRY(const auto credentials, unpack_credentials(secret));
  CO_TRY(settings.sealed, seal_credentials(keyring_, volume.id, credentials));
  volume.settings = s3_settings_json(settings);
  CO_TRY(const Opened* entry, opened(volume));
  const auto bucket = entry->bucket;
  auto listed = co_await with_deadline(kAdmitTimeout,
                                       bucket->list({.prefix = settings.prefix, .max_keys = 1}));
  if (!listed) {
    forget(volume.id);
    if (listed.error().code == Code::kCancelled) {
      co_return fail(std::move(listed).error());
    }
    // Whatever it was, it is the caller's settings that do not work.
    co_return fail(Code::kInvalidArgument,
                   concat("the bucket \"", settings.location.bucket,
                          "\" cannot be used: ", listed.error().message),
                   "bucket_unusable");
  }
  co_return ok();
}

Task<std::unique_ptr<Files>> S3Volumes::open(const Volume& volume) {
  CO_TRY(const Opened* entry, opened(volume));
  S3Place place{.bucket = entry->bucket,
                .prefix = entry->prefix,
                .uid = volume.posix_uid,
                .gid = volume.posix_gid,
                .created_at = volume.created_at};
  place.later = [this](Task<> task) {
    if (background_ != nullptr) {
      background_->spawn("s3 cleanup", std::move(task));
    }
  };
  place.changed = [this, id = volume.id] {
    if (const auto found = opened_.find(id); found != opened_.end()) {
      found->second.changed = true;
    }
  };
  co_return std::make_unique<S3Files>(std::move(place));
}

Result<bool> S3Volumes::renew(Volume& volume) {
  TRY(S3Settings settings, parse_s3_settings(volume.settings));
  if (keyring_.is_current(settings.sealed)) {
    return false;
  }
  TRY(const auto credentials, open_credentials(keyring_, volume.id, settings.sealed));
  TRY(settings.sealed, seal_credentials(keyring_, volume.id, credentials));
  volume.settings = s3_settings_json(settings);
  return true;
}

void S3Volumes::forget(const std::string& volume_id) {
  opened_.erase(volume_id);
}

std::optional<VolumeUsage> S3Volumes::usage(const Volume& volume) {
  const auto entry = opened(volume);
  if (!entry) {
    return std::nullopt;
  }
  Opened& found = **entry;
  const UnixMillis now = surroundings_.clock.now();
  const auto pause_ms = found.changed ? kMeasureChangedMs : kMeasureAgainMs;
  if (background_ != nullptr && !found.measuring && measuring_ < kMaxMeasuring &&
      now - found.tried_at >= pause_ms) {
    found.measuring = true;
    found.changed = false;
    found.tried_at = now;
    ++measuring_;
    background_->spawn("s3 measure", measure(volume.id, found.bucket, found.prefix));
  }
  return found.usage;
}

Task<> S3Volumes::measure(std::string volume_id, std::shared_ptr<s3::Bucket> bucket,
                          std::string prefix) {
  const auto bytes = co_await with_deadline(kMeasureTimeout, sum_up(std::move(bucket), prefix));
  --measuring_;
  const auto found = opened_.find(volume_id);
  if (found == opened_.end()) {
    co_return ok();
  }
  found->second.measuring = false;
  if (bytes) {
    found->second.usage = VolumeUsage{*bytes, surroundings_.clock.now()};
  } else if (bytes.error().code != Code::kCancelled) {
    LOG_INFO("a volume in a bucket could not be measured", {"volume", volume_id},
             {"error", bytes.error()});
  }
  co_return ok();
}

Task<> S3Volumes::run() {
  Scope scope{co_await current_context()};
  scope.on_error([](const char* what, const Error& error) {
    LOG_WARN("work on a bucket failed", {"work", what}, {"error", error});
  });
  background_ = &scope;
  auto ended = co_await wait_for_ever();
  background_ = nullptr;
  (void)co_await scope.cancel_and_join();
  co_return std::move(ended);
}

}  // namespace atl::control
