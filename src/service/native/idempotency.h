// Idempotency-Key: a request that is sent again gets the first answer instead of a second effect.
//
// Remembered per team, method and path, for a day, in this process's memory: at most kMaxKeys
// answers and kMaxBytes of them, the oldest forgotten first; a restart of the API process forgets
// all. Only answers that succeeded are remembered. The same key while the first request still runs
// waits for it, also when the client that sent it has gone: its request goes on to its answer. The
// same key with another body is refused (409). Claims, forks and snapshots have a
// memory of their own, which survives a restart: control::OnceKeys.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/json.h"
#include "http/router.h"
#include "service/native/native_exchange.h"

namespace atl::service::native {

// The Idempotency-Key of a request, nothing when it has none; kInvalidArgument when it is unusable.
Result<std::optional<std::string>> idempotency_key(const http::Request& request);

// An answer as it is kept for whoever asks again with the same key, and back.
std::string remember_answer(int status, Json data);
Result<http::Response> repeat_answer(const std::string& remembered);
// What a key stands for: this path with this body.
std::string request_digest(const http::Request& request, std::string_view body);

using NativeHandler = std::function<Task<>(NativeExchange&, const http::PathParameters&)>;

class Idempotency {
 public:
  static constexpr std::size_t kMaxKeys = 10'000;
  static constexpr std::size_t kMaxBytes = 64U << 20;
  static constexpr std::size_t kMaxKeyBytes = 255;

  explicit Idempotency(const WallClock& clock) : clock_(clock) {}
  Idempotency(const Idempotency&) = delete;
  Idempotency& operator=(const Idempotency&) = delete;

  // The handler, run at most once per key. Requests without the header pass through.
  NativeHandler guard(NativeHandler handler);

 private:
  struct Memory {
    std::string body_sha256;
    http::Response response;
    UnixMillis made_at = 0;
    bool done = false;
    Event finished;
  };
  using MemoryPointer = std::shared_ptr<Memory>;  // shared by the table and those who wait

  Task<> run(const NativeHandler& handler, NativeExchange& exchange,
             const http::PathParameters& parameters);
  Task<> run_first(const NativeHandler& handler, NativeExchange& exchange,
                   const http::PathParameters& parameters, std::string key, MemoryPointer memory);
  void keep(const std::string& key, const MemoryPointer& memory);
  void forget_old();

  const WallClock& clock_;
  std::map<std::string, MemoryPointer, std::less<>> memories_;
  std::deque<std::pair<std::string, MemoryPointer>> oldest_first_;  // those that are done
  std::size_t bytes_ = 0;
};

}  // namespace atl::service::native
