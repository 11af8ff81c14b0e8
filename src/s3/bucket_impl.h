// Private to this room.
#pragma once

#include "s3/caller.h"

namespace atl::s3 {

struct Bucket::Impl {
  Caller caller;

  Task<> remove_listed(std::string list);
};

}  // namespace atl::s3
