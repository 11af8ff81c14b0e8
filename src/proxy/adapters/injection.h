// Which credential a connection gets, and the way upstream with it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "proxy/connection.h"
#include "tls/context.h"

namespace atl::proxy::adapters {

inline constexpr Duration kGreetingTime = std::chrono::seconds{30};
inline constexpr std::size_t kRelayBytes = std::size_t{64} * 1024;

struct Injection {
  egress::MaterialPtr material;
  egress::Projection projection;
  bool tls_upstream = false;
};

// Nothing: no rule covers it, or its rule lets it pass without. An error refuses; it is safe to
// show to the client.
Task<std::optional<Injection>> find_injection(Surroundings& surroundings,
                                              const Connection& connection,
                                              egress::CredentialProtocol protocol,
                                              egress::ProjectionKind kind);

// Dials, and speaks TLS at once if `tls` is there. `tls` must outlive the stream.
Task<std::unique_ptr<io::Stream>> dial(Surroundings& surroundings, const Connection& connection,
                                       const tls::Context* tls);
// Null: plain.
Result<std::unique_ptr<tls::Context>> upstream_tls(const Surroundings& surroundings,
                                                   const Injection& injection);
// The name that an upstream's certificate must have.
std::string upstream_name(const Connection& connection);

// A stream that is read piece by piece by a parser; what the parser did not take is left for
// whoever reads on.
class Pending {
 public:
  explicit Pending(io::Stream& stream) : stream_(stream) {}
  std::string_view bytes() const { return buffer_; }
  void drop(std::size_t size) { buffer_.erase(0, size); }
  std::string take() { return std::exchange(buffer_, {}); }
  // Reads some more; kUnavailable when there is no more, kInvalidArgument above `max_bytes`.
  Task<> more(std::size_t max_bytes);
  Task<std::string> exactly(std::size_t size);

 private:
  io::Stream& stream_;
  std::string buffer_;
};

// Both ways until both have ended, or one has failed.
Task<> relay(io::Stream& client, io::Stream& upstream);
Task<> pass_on(io::Stream& from, io::Stream& to);
// Runs both until both have ended; one that fails ends the other.
Task<> both(Task<> one, Task<> other);
// Without any credential.
Task<> pass_untouched(Surroundings& surroundings, Connection connection);

}  // namespace atl::proxy::adapters
