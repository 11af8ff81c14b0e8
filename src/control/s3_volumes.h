// Volumes in buckets of an S3-compatible server.
//
// The row holds where the bucket is and the credentials, sealed for that row. A volume is admitted
// when its bucket answers a listing under its prefix. The files are control/s3_files.h. What a
// volume holds is found by listing it, in the background, bounded and not often. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "control/s3_settings.h"
#include "control/volumes.h"

namespace atl::control {

class S3Volumes final : public VolumeBackend {
 public:
  // Both outlive this.
  S3Volumes(s3::Surroundings& surroundings, const secrets::Keyring& keyring)
      : surroundings_(surroundings), keyring_(keyring) {}
  S3Volumes(const S3Volumes&) = delete;
  S3Volumes& operator=(const S3Volumes&) = delete;

  // VolumeBackend.
  Task<> admit(Volume& volume, secrets::Plaintext secret) override;
  Task<std::unique_ptr<Files>> open(const Volume& volume) override;
  Result<bool> renew(Volume& volume) override;
  std::optional<VolumeUsage> usage(const Volume& volume) override;
  void forget(const std::string& volume_id) override;

  // Measures, and abandons uploads whose writers went away, until cancelled.
  Task<> run();

 private:
  struct Opened {
    std::shared_ptr<s3::Bucket> bucket;  // also with the files that are open
    std::string prefix;
    std::optional<VolumeUsage> usage;
    bool measuring = false;
    bool changed = false;  // by us, since it was last measured
    UnixMillis tried_at = 0;
  };

  Result<Opened*> opened(const Volume& volume);
  Task<> measure(std::string volume_id, std::shared_ptr<s3::Bucket> bucket, std::string prefix);

  s3::Surroundings& surroundings_;
  const secrets::Keyring& keyring_;
  std::map<std::string, Opened, std::less<>> opened_;
  std::size_t measuring_ = 0;
  Scope* background_ = nullptr;  // while run() runs
};

}  // namespace atl::control
