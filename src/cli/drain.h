// The body of an answer to wherever it belongs, with one buffer.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/task.h"
#include "cli/api_error.h"
#include "cli/descriptor_gate.h"
#include "cli/endpoint.h"
#include "cli/fair_turn.h"
#include "cli/limits.h"
#include "http/client.h"

namespace atl::cli {

// `write` gets each piece; `bytes` grows meanwhile.
template <class Write>
Task<> drain(http::ClientResponse& response, const Endpoint& endpoint, std::uint64_t& bytes,
             Write& write) {
  std::vector<char> buffer(kCopyBufferBytes);
  FairTurn turn;
  for (;;) {
    CO_TRY_DO(co_await turn.step());
    auto got = co_await response.body().read(buffer);
    if (!got) {
      co_return fail(transport_error(std::move(got).error(), endpoint));
    }
    if (*got == 0) {
      co_return ok();
    }
    CO_TRY_DO(co_await write(std::string_view{buffer.data(), *got}));
    bytes += *got;
  }
}

struct WriteToFile {
  int fd;
  Task<> operator()(std::string_view bytes) { co_return write_all(fd, bytes); }
};
struct WriteToOutput {
  SharedWriter& writer;
  Task<> operator()(std::string_view bytes) { return writer.write(bytes); }
};

}  // namespace atl::cli
