#include "proxy/http/goodbye.h"

#include "base/scope.h"
#include "proxy/http/limits.h"
#include "tls/stream.h"

namespace atl::proxy::http {

Task<> say_goodbye(io::Stream& stream) {
  if (auto* secured = dynamic_cast<tls::TlsStream*>(&stream)) {
    co_return co_await with_deadline(kLingerTime, secured->finish());
  }
  co_return stream.finish_writing();
}

}  // namespace atl::proxy::http
