// Links to which anybody who has one can put the files of a step, for a while.
//
// A link names team and hash, until when, and is signed.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "control/access_tokens.h"

namespace atl::service::e2b {

struct UploadGrant {
  std::string team_id;
  std::string hash;
};

class UploadLinks {
 public:
  UploadLinks(const control::AccessTokens& tokens, const WallClock& clock)
      : tokens_(tokens), clock_(clock) {}
  // The query of a link.
  std::string query_for(const UploadGrant& grant) const;
  // What the query allows for this hash; kUnauthenticated.
  Result<UploadGrant> check(std::string_view query, std::string_view hash) const;

 private:
  std::string signature_of(const UploadGrant& grant, UnixMillis expires) const;

  const control::AccessTokens& tokens_;
  const WallClock& clock_;
};

}  // namespace atl::service::e2b
