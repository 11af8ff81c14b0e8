// For formats with an encoder: whatever is accepted is written back as the very same bytes.
#pragma once

#include "fuzz.h"

namespace atl::fuzz {

template <class T, class Encode>
void check_canonical(std::string_view payload, const Result<T>& decoded, const Encode& encode) {
  if (decoded) {
    CHECK(encode(*decoded) == payload);
  } else {
    CHECK(!decoded.error().message.empty());
  }
}

}  // namespace atl::fuzz
