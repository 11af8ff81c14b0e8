#include "base/error.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/before_abort.h"

namespace atl {
namespace {

struct CodeRow {
  std::string_view name;
  int http_status;
  int exit_status;
};

// Indexed by Code. Exit statuses follow sysexits where one fits, so scripts can tell them apart.
constexpr std::array<CodeRow, 17> kCodes{{
    {"ok", 200, 0},
    {"cancelled", 499, 75},
    {"unknown", 500, 70},
    {"invalid_argument", 400, 64},
    {"deadline_exceeded", 504, 124},
    {"not_found", 404, 66},
    {"already_exists", 409, 73},
    {"permission_denied", 403, 77},
    {"resource_exhausted", 429, 75},
    {"failed_precondition", 409, 78},
    {"aborted", 409, 75},
    {"out_of_range", 400, 64},
    {"unimplemented", 501, 69},
    {"internal", 500, 70},
    {"unavailable", 503, 69},
    {"data_loss", 500, 74},
    {"unauthenticated", 401, 77},
}};

const CodeRow& row(Code code) {
  const auto index = static_cast<std::size_t>(code);
  return kCodes[index < kCodes.size() ? index : static_cast<std::size_t>(Code::kUnknown)];
}

}  // namespace

std::string_view code_name(Code code) {
  return row(code).name;
}
int code_http_status(Code code) {
  return row(code).http_status;
}
int code_exit_status(Code code) {
  return row(code).exit_status;
}

Code code_from_number(unsigned number) {
  return number >= 1 && number < kCodes.size() ? static_cast<Code>(number) : Code::kUnknown;
}

Code code_from_errno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ESRCH:
    case ENXIO:
      return Code::kNotFound;
    case EEXIST:
      return Code::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kPermissionDenied;
    case EINVAL:
    case ENAMETOOLONG:
    case EILSEQ:
      return Code::kInvalidArgument;
    case ENOTDIR:
    case EISDIR:
    case ENOTEMPTY:
    case EBUSY:
    case EXDEV:
    case ELOOP:
    case ETXTBSY:
      return Code::kFailedPrecondition;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
    case EFBIG:
      return Code::kResourceExhausted;
    case ETIMEDOUT:
      return Code::kDeadlineExceeded;
    case ECANCELED:
      return Code::kCancelled;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ENOTCONN:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return Code::kUnavailable;
    case ENOSYS:
    case EOPNOTSUPP:
      return Code::kUnimplemented;
    default:
      return Code::kInternal;
  }
}

Error errno_error(std::string_view what, int error_number) {
  // strerrordesc_np is thread-safe and needs no locale, so the static guest may use it too.
  const char* text = ::strerrordesc_np(error_number);
  std::string message{what};
  message += ": ";
  message += text != nullptr ? text : "unknown error";
  const char* name = ::strerrorname_np(error_number);
  return Error{code_from_errno(error_number), std::move(message), name != nullptr ? name : ""};
}

Error errno_error(std::string_view what) {
  return errno_error(what, errno);
}

constinit std::atomic<void (*)()> before_abort{nullptr};

void check_failed(const char* condition, const char* file, int line) {
  if (const auto run = before_abort.load()) {
    run();
  }
  std::fprintf(stderr, "atoll: broken invariant: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace atl
