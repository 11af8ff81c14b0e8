// Files that clients sent for the steps of builds, by team and by the hash the client has for them.
//
// The hash is the client's word and opaque; it is only ever looked for among the files of the same
// team. Files lie in the room that all uploads share (scratch.h), so they go when they were not
// used for an hour, the least used earlier when their team has too many or too much or needs the
// room, and all go with this process. Loop thread only.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/clock.h"
#include "control/template_jobs.h"

namespace atl::control {

class BuildFiles {
 public:
  BuildFiles(TemplateJobs& jobs, const WallClock& clock) : jobs_(jobs), clock_(clock) {}

  // Drops what is not used, until cancelled.
  Task<> run();

  // Null when there are none.
  UploadPointer find(const std::string& team_id, const std::string& hash);
  // Room for so many bytes, or kResourceExhausted.
  Result<UploadPointer> begin(const std::string& team_id, std::uint64_t bytes);
  Task<> append(Upload& upload, std::string_view bytes) {
    return jobs_.append_upload(upload, bytes);
  }
  // From now on found; takes the place of what was there.
  void keep(const std::string& team_id, const std::string& hash, UploadPointer upload,
            std::uint64_t bytes);

 private:
  struct Kept {
    UploadPointer upload;
    std::uint64_t bytes = 0;
    UnixMillis used_at = 0;
  };
  using Files = std::map<std::pair<std::string, std::string>, Kept>;
  bool fits(const std::string& team_id, std::uint64_t bytes) const;
  bool drop_oldest(const std::string& team_id);  // false: there is none
  void drop_unused();

  TemplateJobs& jobs_;
  const WallClock& clock_;
  Files files_;
};

// 64 hexadecimal digits.
Result<> check_files_hash(std::string_view hash);

}  // namespace atl::control
