// Text from a stream of bytes that is cut anywhere: a character that is cut waits for its rest.
// Bytes that are no UTF-8 become U+FFFD.
#pragma once

#include <string>
#include <string_view>

namespace atl::service::native {

class Utf8Joiner {
 public:
  // The text that is complete now.
  std::string add(std::string_view bytes);
  // Nothing more comes: what began a character and is none.
  std::string finish();

 private:
  std::string pending_;  // the beginning of one character, at most three bytes
};

}  // namespace atl::service::native
