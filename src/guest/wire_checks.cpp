#include "guest/wire_checks.h"

#include "base/strings.h"

namespace atl::guest {

Result<> refuse(std::string message, std::string reason) {
  return fail(Code::kInvalidArgument, std::move(message), std::move(reason));
}

bool has_nul(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

Result<> check_user(std::string_view user) {
  if (user.size() > kMaxUserBytes || has_nul(user)) {
    return refuse("user is too long or has a NUL byte", "bad_user");
  }
  return {};
}

Result<> check_mode(std::uint32_t mode) {
  if (mode > 07777) {
    return refuse("mode has more than the permission bits (0 to 07777)", "bad_mode");
  }
  return {};
}

Result<> check_file_request(std::string_view path, std::string_view user) {
  TRY_DO(validate_user_path(path));
  return check_user(user);
}

bool is_result_path(std::string_view path) {
  return path.size() <= kMaxResultPathBytes && path.starts_with('/') && !has_nul(path);
}

Result<> validate_process_id(std::string_view process_id) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  bool good = !process_id.empty() && process_id.size() <= kMaxProcessIdBytes;
  for (const char c : process_id) {
    good = good && allowed(c);
  }
  if (!good) {
    return refuse("process id must be 1 to 64 of a-z A-Z 0-9 . _ -", "bad_process_id");
  }
  return {};
}

Result<> validate_user_path(std::string_view path) {
  if (path == "~") {
    return {};
  }
  return validate_path(path.starts_with("~/") ? path.substr(1) : path);
}

Result<> validate_path(std::string_view path) {
  if (path.empty() || path[0] != '/') {
    return refuse("path must be absolute (start with /)", "path_not_absolute");
  }
  if (path.size() > kMaxPathBytes) {
    return refuse(concat("path is longer than ", kMaxPathBytes, " bytes"), "path_too_long");
  }
  if (has_nul(path)) {
    return refuse("path has a NUL byte", "bad_path");
  }
  return {};
}

}  // namespace atl::guest
