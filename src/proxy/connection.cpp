#include "proxy/connection.h"

#include "base/strings.h"

namespace atl::proxy {

void FlowAccount::add_operation(std::string text) {
  if (record.operations.size() >= egress::kMaxOperationsPerFlow) {
    ++record.operations_left_out;
    return;
  }
  std::string valid = to_valid_utf8(text);
  valid.resize(std::min(valid.size(), egress::kMaxOperationBytes));
  record.operations.push_back(to_valid_utf8(valid));
}

}  // namespace atl::proxy
