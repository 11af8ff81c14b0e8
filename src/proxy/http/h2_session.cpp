#include "proxy/http/h2_session.h"

#include <nghttp2/nghttp2.h>

#include "base/strings.h"
#include "proxy/http/fields.h"
#include "proxy/http/h2_callbacks.h"
#include "proxy/http/limits.h"

namespace atl::proxy::http {
namespace {

using atl::http::Framing;
using atl::http::Http1Head;
using atl::http::Refusal;

constexpr std::int32_t kStreamWindowBytes = 256 * 1024;
constexpr std::int32_t kConnectionWindowBytes = 2 * 1024 * 1024;
}  // namespace

H2Session::H2Session(H2Role role) : role_(role), session_(H2Callbacks::make(*this, role)) {
  std::vector<nghttp2_settings_entry> settings{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, role == H2Role::kServer ? kMaxH2Streams : 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindowBytes},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(kHeadLimits.bytes)},
  };
  if (role == H2Role::kClient) {
    settings.push_back({NGHTTP2_SETTINGS_ENABLE_PUSH, 0});
  }
  CHECK(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size()) ==
        0);
  CHECK(nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                              kConnectionWindowBytes) == 0);
}

H2Session::~H2Session() {
  nghttp2_session_del(session_);
}

H2Stream* H2Session::find(std::int32_t id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second.get();
}

void H2Session::punish() {
  if (!std::exchange(violated_, true)) {
    nghttp2_session_terminate_session(session_, NGHTTP2_ENHANCE_YOUR_CALM);
  }
}

Result<> H2Session::feed(std::string_view bytes, Instant now) {
  now_ = now;
  const auto took = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (took < 0) {
    violated_ = true;
    return fail(Code::kInvalidArgument,
                concat("HTTP/2: ", nghttp2_strerror(static_cast<int>(took))), "malformed_message");
  }
  return {};
}

Result<> H2Session::take_output(std::string& out, std::size_t max_bytes) {
  output_ = &out;
  while (out.size() < max_bytes) {
    const std::uint8_t* data = nullptr;
    const auto before = out.size();
    const auto size = nghttp2_session_mem_send(session_, &data);
    if (size < 0) {
      return fail(Code::kInternal, concat("HTTP/2: ", nghttp2_strerror(static_cast<int>(size))));
    }
    if (size == 0 && out.size() == before) {
      break;
    }
    out.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
  }
  return {};
}

bool H2Session::has_output() const {
  return nghttp2_session_want_write(session_) != 0;
}

bool H2Session::wants_more() const {
  return nghttp2_session_want_read(session_) != 0;
}

std::vector<std::shared_ptr<H2Stream>> H2Session::take_requests() {
  return std::exchange(requests_, {});
}

void H2Session::add_field(H2Stream& stream, std::string_view name, std::string_view value) {
  stream.header_bytes += name.size() + value.size() + 32;
  if (stream.header_bytes > kHeadLimits.bytes || ++stream.header_count > kHeadLimits.count) {
    stream.refusal = Refusal{431, "the header fields are too large"};
  }
  if (stream.refusal) {
    return;
  }
  if (stream.has_final_head) {
    if (!name.starts_with(':')) {
      stream.trailers.add(name, value);
    }
    return;
  }
  Http1Head& head = stream.head;
  if (name == ":method") {
    head.method = value;
  } else if (name == ":path") {
    head.target = value;
  } else if (name == ":authority") {
    stream.authority = value;
  } else if (name == ":status") {
    head.status = static_cast<int>(parse_u64(value).value_or(0));
  } else if (name == "cookie" && head.headers.has(name)) {
    head.headers.set(name, concat(head.headers.get(name), "; ", value));  // split for compression
  } else if (!name.starts_with(':')) {
    head.headers.add(name, value);
  }
}

void H2Session::end_headers(H2Stream& stream) {
  if (stream.has_final_head) {
    for (const auto& [name, value] : stream.trailers.lines()) {
      if (const auto refusal = atl::http::gate_trailer(concat(name, ":", value))) {
        stream.refusal = refusal;
      }
    }
    if (stream.refusal) {
      reset(stream, H2Reset::kBroken);
    }
    return;
  }
  if (role_ == H2Role::kServer) {
    end_request_head(stream);
  } else {
    end_answer_head(stream);
  }
}

void H2Session::end_request_head(H2Stream& stream) {
  stream.has_final_head = true;
  ++handlers_;
  requests_.push_back(streams_.at(stream.id));
  if (stream.refusal) {
    return;
  }
  Http1Head& head = stream.head;
  if (!stream.authority.empty()) {
    if (head.headers.has("host") &&
        !equals_ignore_case(head.headers.get("host"), stream.authority)) {
      stream.refusal = Refusal{400, "Host and :authority differ"};
      return;
    }
    head.headers.set("host", stream.authority);
  }
  head.minor_version = 1;
  stream.refusal = atl::http::gate_request(head, atl::http::Methods::kAny);
  if (!stream.refusal && !head.headers.has("content-length") && !stream.input_ended) {
    head.framing = {Framing::Kind::kChunked, 0};  // a body of unknown length
    head.expects_continue = head.headers.has("expect");
  }
}

void H2Session::end_answer_head(H2Stream& stream) {
  Http1Head head = std::exchange(stream.head, {});
  head.minor_version = 1;
  if (!stream.refusal) {
    stream.refusal = atl::http::gate_response(head, stream.answers_head);
  }
  if (stream.refusal) {
    reset(stream, H2Reset::kBroken);
    return;
  }
  stream.has_final_head = head.status >= 200;
  ResponseHead answer{.status = head.status, .headers = std::move(head.headers)};
  answer.length = parse_u64(answer.headers.get("content-length"));
  answer.has_body =
      stream.has_final_head && !stream.input_ended && head.framing.kind != Framing::Kind::kNone;
  strip_hop_fields(answer.headers);
  stream.answers.push_back(std::move(answer));
}

void H2Session::end_stream(std::int32_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) {
    return;
  }
  const auto stream = found->second;
  streams_.erase(found);
  // What nobody will read still counts against the connection's window.
  nghttp2_session_consume_connection(session_, stream->input_bytes());
  if (role_ == H2Role::kServer || !stream->input_ended) {
    stream->input.clear();
    stream->taken_bytes = 0;
  }
  stream->closed = true;
  stream->gone.set();
  stream->input_changed.set();
  stream->output_changed.set();
}

void H2Session::close_streams() {
  while (!streams_.empty()) {
    reset(*streams_.begin()->second, H2Reset::kCancel);
    end_stream(streams_.begin()->first);
  }
}

void H2Session::consume(H2Stream& stream, std::size_t bytes) {
  stream.taken_bytes += bytes;
  if (stream.taken_bytes == stream.input.size()) {
    stream.input.clear();
    stream.taken_bytes = 0;
  }
  if (!stream.closed) {
    nghttp2_session_consume(session_, stream.id, bytes);
  }
}

void H2Session::resume(const H2Stream& stream) {
  nghttp2_session_resume_data(session_, stream.id);
}

void H2Session::reset(const H2Stream& stream, H2Reset why) {
  const auto code = why == H2Reset::kDone     ? NGHTTP2_NO_ERROR
                    : why == H2Reset::kCancel ? NGHTTP2_CANCEL
                                              : NGHTTP2_INTERNAL_ERROR;
  if (!stream.closed) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, code);
  }
}

void H2Session::go_away() {
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
}

Result<> H2Session::inform(const H2Stream& stream, int status, const Headers& fields) {
  const std::string text = std::to_string(status);
  H2Lines lines;
  lines.add(":status", text);
  TRY_DO(lines.add_all(fields));
  if (!stream.closed) {
    nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, stream.id, nullptr, lines.data(),
                           lines.size(), nullptr);
  }
  return {};
}

Result<> H2Session::respond(H2Stream& stream, const ResponseHead& head) {
  const std::string status = std::to_string(head.status);
  const std::string length = head.length ? std::to_string(*head.length) : "";
  H2Lines lines;
  lines.add(":status", status);
  TRY_DO(lines.add_all(head.headers));
  if (head.length && head.status != 204) {
    lines.add("content-length", length);
  }
  auto provider = H2Callbacks::body();
  if (stream.closed || nghttp2_submit_response(session_, stream.id, lines.data(), lines.size(),
                                               head.has_body ? &provider : nullptr) != 0) {
    return fail(Code::kUnavailable, "the client has cancelled the request", "closed");
  }
  return {};
}

bool H2Session::takes_requests() const {
  return !violated_ && !peer_leaves_ && streams_.size() < kMaxH2Streams &&
         nghttp2_session_check_request_allowed(session_) != 0;
}

Result<std::shared_ptr<H2Stream>> H2Session::request(const RequestHead& head, bool secure) {
  const std::string length = head.length ? std::to_string(*head.length) : "";
  H2Lines lines;
  lines.add(":method", head.method);
  lines.add(":scheme", secure ? "https" : "http");
  lines.add(":authority", head.authority);
  lines.add(":path", head.target);
  TRY_DO(lines.add_all(head.headers));
  if (head.accepts_trailers) {
    lines.add("te", "trailers");
  }
  if (head.length && head.has_body) {
    lines.add("content-length", length);
  }
  auto stream = std::make_shared<H2Stream>();
  stream->answers_head = head.method == "HEAD";
  auto provider = H2Callbacks::body();
  const auto id = nghttp2_submit_request(session_, nullptr, lines.data(), lines.size(),
                                         head.has_body ? &provider : nullptr, nullptr);
  if (id < 0) {
    return fail(Code::kUnavailable, concat("HTTP/2: ", nghttp2_strerror(id)));
  }
  stream->id = id;
  streams_.emplace(id, stream);
  return stream;
}

}  // namespace atl::proxy::http
