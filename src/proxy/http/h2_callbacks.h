// Private to H2Session: how nghttp2 talks to it.
#pragma once

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <forward_list>
#include <string>
#include <vector>

#include "base/strings.h"
#include "proxy/http/h2_session.h"

namespace atl::proxy::http {

// Field lines in nghttp2's form; borrows from what is added.
class H2Lines {
 public:
  void add(std::string_view name, std::string_view value) {
    // nghttp2 copies; its type is not const for historical reasons.
    lines_.push_back({reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                      reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
                      value.size(), NGHTTP2_NV_FLAG_NONE});
  }
  // Names in lower case, as HTTP/2 wants them; what cannot be sent is refused.
  Result<> add_all(const Headers& headers) {
    lines_.reserve(lines_.size() + headers.lines().size() + 2);
    for (const auto& [name, value] : headers.lines()) {
      if (!atl::http::is_token(name) || !atl::http::is_field_value(value)) {
        return fail(Code::kInvalidArgument, "a header field cannot be sent as it is");
      }
      const bool is_upper = std::ranges::any_of(name, [](char c) { return c >= 'A' && c <= 'Z'; });
      add(is_upper ? names_.emplace_front(to_lower(name)) : name, trim(value));
    }
    return {};
  }
  const nghttp2_nv* data() const { return lines_.data(); }
  std::size_t size() const { return lines_.size(); }

 private:
  std::vector<nghttp2_nv> lines_;
  std::forward_list<std::string> names_;  // those that were written otherwise
};

// The functions nghttp2 calls, all with the session as their last argument.
struct H2Callbacks {
  static nghttp2_session* make(H2Session& me, H2Role role);
  // Where the bytes of a body come from: the stream that has the id nghttp2 asks for.
  static nghttp2_data_provider body();
};

}  // namespace atl::proxy::http
