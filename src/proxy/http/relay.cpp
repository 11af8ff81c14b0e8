#include "proxy/http/relay.h"

#include "base/scope.h"
#include "base/strings.h"
#include "io/buffer.h"
#include "proxy/http/limits.h"
#include "proxy/http/mcp_filter.h"
#include "proxy/http/placeholder_guard.h"
#include "proxy/http/redactor.h"
#include "proxy/http/request_judge.h"
#include "proxy/http/websocket_relay.h"

namespace atl::proxy::http {
namespace {

constexpr int kMaxInforms = 8;
constexpr std::uint64_t kMaxDroppedBytes = std::uint64_t{64} * 1024;

bool may_be_repeated(const std::string& method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS" || method == "PUT" ||
         method == "DELETE";
}

// The way of one request and its answer.
class Passage {
 public:
  Passage(Conversation& conversation, ClientSide& client)
      : conversation_(conversation), client_(client), share_(new_share()) {}

  Task<> run();

 private:
  HeldBytes::Share new_share() const {
    return {conversation_.memory.held, conversation_.account->record.sandbox_id};
  }
  Task<std::optional<Answer>> prepare_body();
  Task<std::string> read_whole_body();
  Task<> exchange();
  Task<> attempt(bool fresh);
  Task<> send_body();
  Task<> upload(CancelState& answering);
  Task<> watch_client(CancelState& answering);
  Task<> respond();
  Task<> upgrade(ResponseHead head);
  Task<> send_response_body();
  Headers response_trailers() const;
  Result<> add_response_filters(ResponseHead& head);
  Task<> answer(Answer answer);
  Answer failure() const;
  void note(int status, std::string_view remark = {});

  Conversation& conversation_;
  ClientSide& client_;
  HeldBytes::Share share_;
  Plan plan_;
  std::unique_ptr<McpExchange> mcp_;
  std::optional<std::string> held_body_;
  BodyFilters response_filters_;
  std::unique_ptr<ServerSide> server_;
  Result<> outcome_;    // of the last attempt
  Error client_error_;  // of the client's side, while it sent its body
  Error server_error_;
  Error send_error_;
  bool send_failed_ = false;  // before anything was sent
  bool client_failed_ = false;
  bool client_gone_ = false;
  bool answer_began_ = false;
};

void Passage::note(int status, std::string_view remark) {
  conversation_.account->add_operation(concat(client_.head().method, " ", plan_.path, " ", status,
                                              remark.empty() ? "" : " ", remark));
}

Task<> Passage::answer(Answer answer) {
  note(answer.status, answer.note);
  const RequestHead& head = client_.head();
  if (head.has_body && !held_body_ && !client_failed_ && !head.expects_continue && head.length &&
      *head.length <= kMaxDroppedBytes) {
    std::array<char, 4096> scrap;
    for (;;) {  // so that the connection can go on
      const auto got = co_await client_.read(scrap);
      if (!got || *got == 0) {
        break;
      }
    }
  }
  co_return co_await send_answer(client_, std::move(answer));
}

Task<std::string> Passage::read_whole_body() {
  if (client_.head().expects_continue) {
    CO_TRY_DO(co_await client_.inform(100, {}));
  }
  std::string body;
  std::string piece(kPieceBytes, '\0');
  for (;;) {
    CO_TRY(const auto got, co_await client_.read(piece));
    if (got == 0) {
      co_return body;
    }
    if (body.size() + got > kMaxHeldBodyBytes) {
      co_return fail(Code::kResourceExhausted,
                     concat("the body of this request may have ", kMaxHeldBodyBytes, " bytes"),
                     "request_too_large");
    }
    CO_TRY_DO(share_.hold(body.size() + got));
    body.append(piece, 0, got);
  }
}

// Holds what must be seen whole: MCP messages, and short bodies whose length changes.
Task<std::optional<Answer>> Passage::prepare_body() {
  RequestHead& request = plan_.request;
  const std::string& flow_id = conversation_.account->record.id;
  const bool is_mcp = !plan_.mcp_rules.empty();
  if (is_mcp) {
    CO_TRY(mcp_, McpExchange::begin(plan_.mcp_rules, request));
    if (auto refused = mcp_->check_head(flow_id)) {
      co_return refused;
    }
  }
  const bool is_short =
      plan_.changes_length && request.length.value_or(UINT64_MAX) <= kMaxHeldBodyBytes;
  if (!request.has_body || (!is_mcp && !is_short)) {
    if (plan_.changes_length) {
      request.length.reset();
    }
    co_return std::optional<Answer>{};
  }
  auto body = co_await with_deadline(kHeldBodyTime, read_whole_body());
  if (!body) {
    client_failed_ = true;
    client_error_ = std::move(body).error();
    co_return failure();
  }
  held_body_ = *std::move(body);
  if (is_mcp) {
    if (auto refused = mcp_->judge(*held_body_, flow_id, *conversation_.account)) {
      co_return refused;
    }
    held_body_ = mcp_->forward();
  }
  auto filtered = plan_.request_filters.pass(*held_body_, true);
  if (!filtered) {
    client_failed_ = true;
    client_error_ = std::move(filtered).error();
    co_return failure();
  }
  held_body_ = *std::move(filtered);
  request.has_body = true;
  request.length = held_body_->size();
  co_return std::optional<Answer>{};
}

Answer Passage::failure() const {
  return error_answer(client_failed_ ? client_error_ : server_error_, client_failed_,
                      conversation_.account->record.id);
}

Task<> Passage::run() {
  CO_TRY(auto verdict, co_await judge_request(conversation_, client_));
  plan_ = std::move(verdict.plan);
  if (verdict.refusal) {
    co_return co_await answer(*std::move(verdict.refusal));
  }
  CO_TRY(auto refused, co_await prepare_body());
  if (refused) {
    co_return co_await answer(*std::move(refused));
  }
  co_return co_await exchange();
}

Task<> Passage::exchange() {
  CO_TRY_DO(co_await attempt(false));
  const bool streamed = plan_.request.has_body && !held_body_;
  if (!outcome_ && !answer_began_ && !client_failed_ && !client_gone_ && server_ &&
      !server_->is_fresh() && !streamed && may_be_repeated(plan_.request.method)) {
    // The server had closed a connection that was idle, which is no answer.
    server_.reset();
    CO_TRY_DO(co_await attempt(true));
  }
  if (outcome_) {
    co_return ok();
  }
  if (client_gone_ || client_.started()) {
    co_return fail(std::move(outcome_).error());
  }
  server_error_ = std::move(outcome_).error();
  co_return co_await answer(failure());
}

// Fails only when everything is cancelled; how it went is in outcome_.
Task<> Passage::attempt(bool fresh) {
  TaskContext& outer = co_await current_context();
  server_ = fresh ? nullptr : conversation_.upstreams.take_ready(plan_.route);
  if (!server_) {
    auto opened = co_await conversation_.upstreams.open(plan_.route, fresh);
    if (!opened) {
      if (outer.cancel->cancelled()) {
        co_return fail(std::move(opened).error());
      }
      outcome_ = fail(std::move(opened).error());
      co_return ok();
    }
    server_ = *std::move(opened);
  }
  if (plan_.request.has_body && !held_body_ && client_.head().expects_continue) {
    // Before the two directions part: only respond() writes to the client from then on.
    if (auto informed = co_await client_.inform(100, {}); !informed) {
      if (outer.cancel->cancelled()) {
        co_return std::move(informed);
      }
      client_gone_ = true;
      outcome_ = std::move(informed);
      co_return ok();
    }
  }
  CancelState cancel{outer.cancel};
  TaskContext answering{outer.loop, &cancel};
  Scope sending{outer};
  sending.on_error([](const char*, const Error&) {});
  sending.spawn("request body", upload(cancel));
  outcome_ = co_await respond().under(answering);
  (void)co_await sending.cancel_and_join();
  if (outer.cancel->cancelled()) {
    co_return fail(Code::kCancelled, "cancelled");
  }
  if (!outcome_ && send_failed_) {
    outcome_ = fail(std::move(send_error_));
  }
  co_return ok();
}

// Sends the request, then looks whether anybody still waits for its answer.
Task<> Passage::upload(CancelState& answering) {
  auto sent = co_await server_->start(plan_.request);
  if (!sent) {
    send_failed_ = true;
    send_error_ = std::move(sent).error();
    answering.cancel();
    co_return ok();
  }
  if (plan_.request.has_body) {
    sent = co_await send_body();
  }
  if (sent) {
    Headers trailers = plan_.request.has_body && !held_body_ ? client_.trailers() : Headers{};
    for (const auto& [name, value] : trailers.lines()) {
      if (carries_placeholder(value, plan_.forbidden)) {
        client_failed_ = true;
        client_error_ = {Code::kPermissionDenied, std::string{kMisdirectedPlaceholder},
                         "placeholder_misdirected"};
      }
    }
    if (!client_failed_) {
      sent = co_await server_->finish(std::move(trailers));
    }
  }
  if (client_failed_) {
    answering.cancel();
    co_return ok();
  }
  if (!sent) {
    co_return sent;  // its answer, if it gave one before it stopped reading, still counts
  }
  if (plan_.request.wants_websocket) {
    co_return ok();
  }
  co_return co_await watch_client(answering);
}

Task<> Passage::watch_client(CancelState& answering) {
  CO_TRY_DO(co_await client_.gone());
  client_gone_ = true;
  answering.cancel();
  co_return ok();
}

Task<> Passage::send_body() {
  if (held_body_) {
    co_return co_await server_->write(*held_body_);
  }
  const io::Buffer buffer;
  for (;;) {
    const auto got = co_await client_.read(buffer.span());
    if (!got) {
      client_failed_ = true;
      client_error_ = got.error();
      co_return fail(got.error());
    }
    const std::string_view bytes{buffer.data(), *got};
    if (plan_.request_filters.empty()) {
      if (bytes.empty()) {
        co_return ok();
      }
      CO_TRY_DO(co_await server_->write(bytes));
      continue;
    }
    auto filtered = plan_.request_filters.pass(bytes, bytes.empty());
    if (!filtered) {
      client_failed_ = true;
      client_error_ = filtered.error();
      co_return fail(std::move(filtered).error());
    }
    CO_TRY_DO(co_await server_->write(*filtered));
    if (bytes.empty()) {
      co_return ok();
    }
  }
}

Result<> Passage::add_response_filters(ResponseHead& head) {
  if (plan_.redacts) {
    TRY(auto redactor, Redactor::make(plan_.materials, head));
    if (head.has_body) {
      response_filters_.add(std::move(redactor));
    }
  }
  if (mcp_) {
    TRY(auto answers, mcp_->answer_filter(head, new_share()));
    if (answers) {
      response_filters_.add(std::move(answers));
      head.length.reset();
    }
  }
  return {};
}

Task<> Passage::respond() {
  ResponseHead head;
  for (int informs = 0;; ++informs) {
    CO_TRY(head, co_await server_->read_head());
    answer_began_ = true;
    if (head.status >= 200) {
      break;
    }
    if (plan_.redacts) {
      Redactor::redact_fields(plan_.materials, head.headers);
    }
    if (head.status == 101 && plan_.request.wants_websocket) {
      co_return co_await upgrade(std::move(head));
    }
    if (head.status == 101 || informs >= kMaxInforms) {
      co_return fail(Code::kUnavailable, "the server's answer makes no sense here");
    }
    if (head.status != 100) {  // a 100 was sent when we wanted the body
      CO_TRY_DO(co_await client_.inform(head.status, head.headers));
    }
  }
  CO_TRY_DO(add_response_filters(head));
  note(head.status);
  const bool has_body = head.has_body;
  CO_TRY_DO(co_await client_.start(std::move(head)));
  if (has_body) {
    co_return co_await send_response_body();
  }
  co_return co_await client_.finish({}, response_trailers());
}

Headers Passage::response_trailers() const {
  Headers trailers = server_->trailers();
  if (plan_.redacts) {
    Redactor::redact_fields(plan_.materials, trailers);
  }
  return trailers;
}

Task<> Passage::upgrade(ResponseHead head) {
  auto relayed =
      co_await relay_websocket(client_, *server_, plan_.request, std::move(head), plan_.forbidden);
  if (relayed || client_.started()) {
    note(101, "websocket");
  }
  co_return std::move(relayed);
}

Task<> Passage::send_response_body() {
  if (!server_->has_ready_bytes()) {
    CO_TRY_DO(co_await client_.flush());
  }
  const io::Buffer buffer;
  for (;;) {
    CO_TRY(const auto got, co_await server_->read(buffer.span()));
    const bool is_last = got == 0 || server_->has_ended();
    std::string_view bytes{buffer.data(), got};
    std::string filtered;
    if (!response_filters_.empty()) {
      CO_TRY(filtered, response_filters_.pass(bytes, is_last));
      bytes = filtered;
    }
    if (is_last) {
      co_return co_await client_.finish(bytes, response_trailers());
    }
    CO_TRY_DO(co_await client_.write(bytes));  // nothing: what came before goes out
  }
}

}  // namespace

Task<> relay(Conversation& conversation, ClientSide& client) {
  Passage passage{conversation, client};
  co_return co_await passage.run();
}

}  // namespace atl::proxy::http
