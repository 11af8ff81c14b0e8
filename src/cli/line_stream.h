// An answer of the API that comes as JSON lines and does not end.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/json.h"
#include "cli/api.h"

namespace atl::cli {

class LineStream {
 public:
  explicit LineStream(std::unique_ptr<http::ClientResponse> response)
      : response_(std::move(response)) {}

  // The next line that is not blank. kUnavailable at the end.
  Task<Json> next();

 private:
  std::unique_ptr<http::ClientResponse> response_;
  std::string partial_;
};

// The value in a local file, which is not read when it is larger than an answer of the API.
Result<std::string> read_local_file(const std::string& path);

}  // namespace atl::cli
