// Files of clients: on their way in, and away again.
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/random.h"
#include "base/strings.h"
#include "control/limits.h"
#include "control/template_jobs.h"

namespace atl::control {

Upload::~Upload() {
  remove_file();
}

void Upload::remove_file() {
  file_.reset();
  if (!path_.empty()) {
    ::unlink(path_.c_str());
    path_.clear();
  }
}

Task<> Upload::append(io::OffloadPool& pool, std::string_view bytes) {
  if (size_ + bytes.size() > kMaxUploadBytes) {
    co_return fail(Code::kResourceExhausted,
                   concat("the upload is larger than ", format_quantity(kMaxUploadBytes)),
                   "request_too_large");
  }
  CO_TRY_DO(lease_->hold(size_ + bytes.size()));
  size_ += bytes.size();
  co_return co_await pool.run([this, bytes] { return write_all(file_.get(), bytes); });
}

Result<UploadPointer> TemplateJobs::begin_upload(std::string team_id, std::uint64_t bytes) {
  if (bytes > kMaxUploadBytes) {
    return fail(Code::kResourceExhausted,
                concat("the upload is larger than ", format_quantity(kMaxUploadBytes)),
                "request_too_large");
  }
  TRY_DO(parts_.scratch.check(team_id, bytes));
  std::string path = concat(parts_.directory, "/upload-", random_label(16));
  Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (!file) {
    return fail_errno("storing the upload");
  }
  auto upload = std::make_unique<Upload>(std::move(path), std::move(file), parts_.scratch,
                                         std::move(team_id));
  return UploadPointer{upload.release(),
                       [this](Upload* gone) { discard(std::unique_ptr<Upload>{gone}); }};
}

// Freeing many gigabytes takes a while, in which the loop has other things to do.
void TemplateJobs::discard(std::unique_ptr<Upload> upload) {
  upload->give_back_room();
  if (scope_ != nullptr) {
    scope_->spawn("upload", remove_file(std::move(upload)));
  }
}

Task<> TemplateJobs::remove_file(std::unique_ptr<Upload> upload) {
  (void)co_await parts_.pool.run([&upload]() -> Result<> {
    upload->remove_file();
    return {};
  });
  co_return ok();
}

}  // namespace atl::control
