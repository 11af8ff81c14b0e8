// Failure as a value.
//
// Every operation that can fail returns Result<T>. An Error has one of the sixteen canonical
// codes (the same table Connect and gRPC use), a message written for the person who has to act
// on it, and optional notes added once per room border on the way up. One table in error.cpp maps
// a code to its name, its HTTP status and its CLI exit code; nothing else may invent a mapping.
//
// The namespace is `atl`, because the C library already has a function called atoll().
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace atl {

enum class Code : std::uint8_t {
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

std::string_view code_name(Code code);   // "not_found"
int code_http_status(Code code);         // 404
int code_exit_status(Code code);         // for the CLI: 1..125
Code code_from_errno(int error_number);  // ENOENT -> kNotFound
// A code read from a wire; anything unknown becomes kUnknown.
Code code_from_number(unsigned number);

struct Error {
  Code code = Code::kUnknown;
  std::string message;
  // A machine-readable reason narrower than `code` ("file_not_found"); empty when there is none.
  std::string reason;

  // Adds where we were when it failed: "starting sandbox x: <message>".
  Error&& note(std::string_view context) && {
    message.insert(0, ": ").insert(0, context);
    return std::move(*this);
  }
};

template <class T = void>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(Code code, std::string message, std::string reason = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(reason)});
}
inline std::unexpected<Error> fail(Error error) {
  return std::unexpected(std::move(error));
}

// "what: No such file or directory", with the code that belongs to the errno.
Error errno_error(std::string_view what, int error_number);
Error errno_error(std::string_view what);  // uses errno
inline std::unexpected<Error> fail_errno(std::string_view what) {
  return std::unexpected(errno_error(what));
}

// A broken invariant of ours: print and abort. Stays on in release builds.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace atl

#define ATOLL_CONCAT_INNER(a, b) a##b
#define ATOLL_CONCAT(a, b) ATOLL_CONCAT_INNER(a, b)

#define ATOLL_TRY_IMPL(returning, tmp, decl, expr) \
  auto tmp = (expr);                               \
  if (!tmp) [[unlikely]]                           \
    returning ::atl::fail(std::move(tmp).error()); \
  decl = *std::move(tmp)

#define ATOLL_TRY_DO_IMPL(returning, tmp, expr)      \
  do {                                               \
    auto tmp = (expr);                               \
    if (!tmp) [[unlikely]]                           \
      returning ::atl::fail(std::move(tmp).error()); \
  } while (false)

// TRY(auto x, f());  TRY_DO(g());  and the same inside coroutines with CO_.
#define TRY(decl, expr) ATOLL_TRY_IMPL(return, ATOLL_CONCAT(try_result_, __LINE__), decl, expr)
#define CO_TRY(decl, expr) \
  ATOLL_TRY_IMPL(co_return, ATOLL_CONCAT(try_result_, __LINE__), decl, expr)
#define TRY_DO(expr) ATOLL_TRY_DO_IMPL(return, ATOLL_CONCAT(try_result_, __LINE__), expr)
#define CO_TRY_DO(expr) ATOLL_TRY_DO_IMPL(co_return, ATOLL_CONCAT(try_result_, __LINE__), expr)

#define CHECK(condition)                                   \
  do {                                                     \
    if (!(condition)) [[unlikely]]                         \
      ::atl::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)
