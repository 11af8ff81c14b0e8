#include "cli/line_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strings.h"

namespace atl::cli {

Task<Json> LineStream::next() {
  for (;;) {
    const auto end = partial_.find('\n');
    if (end != std::string::npos) {
      const std::string line = partial_.substr(0, end);
      partial_.erase(0, end + 1);
      if (!trim(line).empty()) {
        co_return Json::parse(line);
      }
      continue;
    }
    if (partial_.size() > kMaxStreamLineBytes) {
      co_return fail(Code::kDataLoss, "the server sent a line that is too long");
    }
    std::string buffer(64 * 1024, '\0');
    CO_TRY(const std::size_t got, co_await response_->body().read(std::span{buffer}));
    if (got == 0) {
      co_return fail(Code::kUnavailable, "the server ended the stream");
    }
    partial_.append(buffer, 0, got);
  }
}

Result<std::string> read_local_file(const std::string& path) {
  const Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd) {
    return fail_errno(concat("reading ", path));
  }
  std::string content;
  char buffer[64 * 1024];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0) {
      return fail_errno(concat("reading ", path));
    }
    if (got == 0) {
      return content;
    }
    content.append(buffer, static_cast<std::size_t>(got));
    if (content.size() > kMaxAnswerBytes) {
      return fail(Code::kInvalidArgument, concat(path, " is too large"));
    }
  }
}

}  // namespace atl::cli
