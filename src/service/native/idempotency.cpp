#include "service/native/idempotency.h"

#include <algorithm>

#include "base/random.h"
#include "base/strings.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"

namespace atl::service::native {
namespace {

constexpr std::int64_t kDayMs = 24LL * 3600 * 1000;

bool is_sane(std::string_view key) {
  return key.size() <= Idempotency::kMaxKeyBytes &&
         std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

Result<std::optional<std::string>> idempotency_key(const http::Request& request) {
  const auto given = request.headers.get("Idempotency-Key");
  if (!is_sane(given)) {
    return fail(Code::kInvalidArgument,
                concat("the Idempotency-Key header must be at most ", Idempotency::kMaxKeyBytes,
                       " printable characters without spaces"));
  }
  return given.empty() ? std::nullopt : std::optional{std::string{given}};
}

std::string remember_answer(int status, Json data) {
  return Json::object({{"status", status}, {"data", std::move(data)}}).dump();
}

Result<http::Response> repeat_answer(const std::string& remembered) {
  TRY(const auto kept, Json::parse(remembered));
  const Json* status = kept.find("status");
  const Json* data = kept.find("data");
  if (status == nullptr || status->as_integer() == nullptr || data == nullptr) {
    return fail(Code::kDataLoss, "a remembered answer is damaged");
  }
  http::Response response = data_response(static_cast<int>(*status->as_integer()), *data);
  response.headers.set("Idempotent-Replayed", "true");
  return response;
}

std::string request_digest(const http::Request& request, std::string_view body) {
  return sha256(concat(request.method, " ", request.path, "\n", body));
}

NativeHandler Idempotency::guard(NativeHandler handler) {
  return [this, handler = std::move(handler)](NativeExchange& exchange,
                                              const http::PathParameters& parameters) {
    return exchange.request().headers.get("Idempotency-Key").empty()
               ? handler(exchange, parameters)
               : run(handler, exchange, parameters);
  };
}

Task<> Idempotency::run(const NativeHandler& handler, NativeExchange& exchange,
                        const http::PathParameters& parameters) {
  const auto& request = exchange.request();
  CO_TRY(const auto given, idempotency_key(request));
  const std::string key =
      concat(exchange.principal().team_id, " ", request.method, " ", request.path, " ", *given);
  CO_TRY(auto body, co_await http::read_all(exchange.body(), kMaxJsonBodyBytes));
  const std::string digest = sha256(body);
  exchange.replace_body(std::move(body));
  for (;;) {
    forget_old();
    const auto found = memories_.find(key);
    if (found == memories_.end()) {
      auto memory = std::make_shared<Memory>();
      memory->body_sha256 = digest;
      memories_.emplace(key, memory);
      co_return co_await run_first(handler, exchange, parameters, key, std::move(memory));
    }
    const MemoryPointer memory = found->second;
    if (memory->body_sha256 != digest) {
      co_return fail(Code::kAlreadyExists,
                     "this Idempotency-Key was used for another request; choose a new one",
                     "idempotency_conflict");
    }
    if (memory->done) {
      http::Response again = memory->response;
      again.headers.set("Idempotent-Replayed", "true");
      co_return co_await exchange.respond(std::move(again));
    }
    CO_TRY_DO(co_await memory->finished.wait());
  }
}

Task<> Idempotency::run_first(const NativeHandler& handler, NativeExchange& exchange,
                              const http::PathParameters& parameters, std::string key,
                              MemoryPointer memory) {
  http::Response answered{.status = 0};
  exchange.record_into(&answered);
  auto result = co_await handler(exchange, parameters);
  exchange.record_into(nullptr);
  // An answer that could not be sent is still the answer: that is what the key is for.
  if (answered.status >= 200 && answered.status < 300) {
    memory->response = std::move(answered);
    memory->done = true;
    keep(key, memory);
  } else {
    memories_.erase(key);
  }
  memory->finished.set();
  co_return std::move(result);
}

void Idempotency::keep(const std::string& key, const MemoryPointer& memory) {
  memory->made_at = clock_.now();
  bytes_ += memory->response.body.size();
  oldest_first_.emplace_back(key, memory);
  forget_old();
}

void Idempotency::forget_old() {
  while (!oldest_first_.empty()) {
    const auto& [key, memory] = oldest_first_.front();
    if (oldest_first_.size() <= kMaxKeys && bytes_ <= kMaxBytes &&
        clock_.now() - memory->made_at < kDayMs) {
      return;
    }
    bytes_ -= memory->response.body.size();
    memories_.erase(key);
    oldest_first_.pop_front();
  }
}

}  // namespace atl::service::native
