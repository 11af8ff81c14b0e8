// Something that bytes of a body pass through.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::proxy::http {

class BodyFilter {
 public:
  virtual ~BodyFilter() = default;
  // What may go on now. An error ends the exchange: kPermissionDenied is a denial to be told.
  virtual Result<std::string> feed(std::string_view bytes) = 0;
  virtual Result<std::string> finish() = 0;
};

// Several, one after another.
class BodyFilters {
 public:
  void add(std::unique_ptr<BodyFilter> filter) { filters_.push_back(std::move(filter)); }
  bool empty() const { return filters_.empty(); }
  // `last`: nothing comes after these bytes.
  Result<std::string> pass(std::string_view bytes, bool last);

 private:
  std::vector<std::unique_ptr<BodyFilter>> filters_;
};

}  // namespace atl::proxy::http
