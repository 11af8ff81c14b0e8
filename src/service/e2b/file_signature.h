// Signed file URLs: v1_ and the unpadded base64 of SHA-256 over path:operation:user:token, with
// :expiration behind when there is one. Path and user are exactly what the query says.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "http/message.h"

namespace atl::service::e2b {

struct FileSignature {
  std::string path;
  std::string operation;  // "read", "write"
  std::string user;
  std::string expiration;  // unix seconds as sent; empty: none
  std::string signature;

  // Of a request for /files; nothing when it has no signature.
  static std::optional<FileSignature> of(const http::Request& request);
  // Made with this token. In constant time.
  bool is_of(std::string_view token) const;
  // kUnauthenticated "signature is already expired", or for a time that is none.
  Result<> check_time(UnixMillis now) const;
};

// Looks for the token that a signature was made with. What all tokens have in common is hashed
// once, so that each costs the same little, however long the path.
class SignerSearch {
 public:
  // kUnauthenticated when no token can fit: the time is over, or the text is no signature, or is
  // for a path or a user that nobody can have.
  static Result<SignerSearch> begin(const FileSignature& signature, UnixMillis now);
  // In constant time.
  bool is_signer(std::string_view token) const;

 private:
  struct State;
  struct Free {
    void operator()(State* state) const;
  };
  explicit SignerSearch(std::unique_ptr<State, Free> state) : state_(std::move(state)) {}
  std::unique_ptr<State, Free> state_;
};

// What a client would write.
std::string sign_file(std::string_view path, std::string_view operation, std::string_view user,
                      std::string_view token, std::string_view expiration);

}  // namespace atl::service::e2b
