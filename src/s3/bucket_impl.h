// Private to this room.
#pragma once

#include "s3/caller.h"
#include "s3/limits.h"

namespace atl::s3 {

struct Bucket::Impl {
  Caller caller;

  Task<> remove_listed(std::string list);
};

inline Result<> check_key(std::string_view key) {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    return fail(Code::kInvalidArgument, concat("the name of an object is 1 to ", kMaxKeyBytes,
                                               " bytes; use a shorter path"));
  }
  return {};
}

}  // namespace atl::s3
