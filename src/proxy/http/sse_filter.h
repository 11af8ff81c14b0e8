// Server-sent events whose data are JSON messages, each passed through a function.
//
// Events go on as soon as they are complete. Comments, ids, names and retry times are kept; data
// that the function changes is written anew as one line, other data stays as it was.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "proxy/http/body_filter.h"
#include "proxy/http/held_bytes.h"

namespace atl::proxy::http {

class SseFilter final : public BodyFilter {
 public:
  using Change = std::function<Json(Json)>;
  SseFilter(Change change, HeldBytes::Share share)
      : change_(std::move(change)), share_(std::move(share)) {}

  Result<std::string> feed(std::string_view bytes) override;
  Result<std::string> finish() override;

 private:
  std::size_t held_bytes() const { return line_.size() + others_.size() + data_.size(); }
  void end_line(std::string& out);
  void end_event(std::string& out);

  Change change_;
  HeldBytes::Share share_;
  std::string line_;
  bool after_return_ = false;  // a line feed now belongs to the line end before
  std::string others_;         // lines of the event that are not data
  std::string data_;
  bool has_data_ = false;
};

}  // namespace atl::proxy::http
