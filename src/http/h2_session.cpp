#include "http/h2_session.h"

#include <nghttp2/nghttp2.h>

#include "base/strings.h"

namespace atl::http {

// The functions nghttp2 calls, all with the session as their last argument.
struct Http2Callbacks {
  static Http2Session& self(void* user) { return *static_cast<Http2Session*>(user); }

  static bool is_request(const nghttp2_frame* frame) {
    return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
  }

  static int on_begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    auto& me = self(user);
    if (!is_request(frame)) {
      return 0;
    }
    const auto id = frame->hd.stream_id;
    if (me.busy_ + me.requests_.size() >= kMaxHttp2Streams) {
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
      return 0;
    }
    auto stream = std::make_shared<Http2Stream>();
    stream->id = id;
    me.streams_.emplace(id, std::move(stream));
    return 0;
  }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* user) {
    auto& me = self(user);
    if (auto* stream = is_request(frame) ? me.find(frame->hd.stream_id) : nullptr) {
      me.add_field(*stream, {reinterpret_cast<const char*>(name), name_size},
                   {reinterpret_cast<const char*>(value), value_size});
    }
    return 0;  // trailers are ignored
  }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto& me = self(user);
    const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS:
      case NGHTTP2_DATA:
        if (auto* stream = me.find(frame->hd.stream_id)) {
          stream->input_ended = stream->input_ended || ends;
          stream->input_changed.set();
          if (is_request(frame)) {
            me.finish_head(*stream);
          }
        }
        if (frame->hd.type == NGHTTP2_DATA && frame->hd.length == 0 && !ends &&
            !me.chores_.take(me.now_)) {
          me.punish();
        }
        break;
      case NGHTTP2_RST_STREAM:
        if (!me.resets_.take(me.now_)) {
          me.punish();
        }
        break;
      case NGHTTP2_SETTINGS:
      case NGHTTP2_PING:
      case NGHTTP2_PRIORITY:
        if (!me.chores_.take(me.now_)) {
          me.punish();
        }
        break;
      default:
        break;
    }
    return 0;
  }

  static int on_data(nghttp2_session* session, std::uint8_t, std::int32_t id,
                     const std::uint8_t* data, std::size_t size, void* user) {
    auto& me = self(user);
    auto* stream = me.find(id);
    if (stream == nullptr || stream->abandoned) {
      nghttp2_session_consume(session, id, size);
      return 0;
    }
    stream->input.append(reinterpret_cast<const char*>(data), size);
    stream->input_changed.set();
    return 0;
  }

  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t, void* user) {
    self(user).end_stream(id);
    return 0;
  }

  static ssize_t read_output(nghttp2_session*, std::int32_t, std::uint8_t* buffer, std::size_t size,
                             std::uint32_t* flags, nghttp2_data_source* source, void*) {
    auto& stream = *static_cast<Http2Stream*>(source->ptr);
    if (stream.output.empty() && !stream.output_ended) {
      return NGHTTP2_ERR_DEFERRED;
    }
    const auto taken = std::min(size, stream.output.size());
    stream.output.copy(reinterpret_cast<char*>(buffer), taken);
    stream.output.remove_prefix(taken);
    if (stream.output.empty()) {
      if (stream.output_ended) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        stream.output_done = true;
      }
      stream.output_changed.set();
    }
    return static_cast<ssize_t>(taken);
  }

  static nghttp2_session* make(Http2Session& me) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_option* option = nullptr;
    nghttp2_session* session = nullptr;
    CHECK(nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_outbound_ack(option, 128);
    CHECK(nghttp2_session_server_new2(&session, callbacks, &me, option) == 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return session;
  }
};

Http2Session::Http2Session(HeadLimits limits, const std::size_t& busy)
    : limits_(limits), busy_(busy), session_(Http2Callbacks::make(*this)) {
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, kMaxHttp2Streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kHttp2StreamWindowBytes},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(limits.bytes)},
      {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
  };
  CHECK(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings)) == 0);
  CHECK(nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                              kHttp2ConnectionWindowBytes) == 0);
}

Http2Session::~Http2Session() {
  nghttp2_session_del(session_);
}

Http2Stream* Http2Session::find(std::int32_t id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : found->second.get();
}

void Http2Session::punish() {
  if (!std::exchange(violated_, true)) {
    nghttp2_session_terminate_session(session_, NGHTTP2_ENHANCE_YOUR_CALM);
  }
}

Result<> Http2Session::feed(std::string_view bytes, Instant now) {
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

Result<> Http2Session::take_output(std::string& out, std::size_t max_bytes) {
  while (out.size() < max_bytes) {
    const std::uint8_t* data = nullptr;
    const auto size = nghttp2_session_mem_send(session_, &data);
    if (size < 0) {
      return fail(Code::kInternal, concat("HTTP/2: ", nghttp2_strerror(static_cast<int>(size))));
    }
    if (size == 0) {
      break;
    }
    out.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
  }
  return {};
}

std::vector<std::shared_ptr<Http2Stream>> Http2Session::take_requests() {
  return std::exchange(requests_, {});
}

bool Http2Session::wants_more() const {
  return nghttp2_session_want_read(session_) != 0;
}

void Http2Session::add_field(Http2Stream& stream, std::string_view name, std::string_view value) {
  stream.header_bytes += name.size() + value.size() + 32;
  Headers& headers = stream.head.headers;
  if (stream.header_bytes > limits_.bytes || headers.lines().size() >= limits_.count) {
    stream.refusal = Refusal{431, "the header fields are too large"};
  }
  if (stream.refusal) {
    return;
  }
  if (name == ":method") {
    stream.head.method = value;
  } else if (name == ":path") {
    stream.head.target = value;
  } else if (name == ":authority") {
    stream.authority = value;
  } else if (name == ":protocol") {
    stream.protocol = value;
  } else if (name == "cookie" && headers.has(name)) {
    headers.set(name, concat(headers.get(name), "; ", value));  // split for compression
  } else if (!name.starts_with(':')) {
    headers.add(name, value);
  }
}

// The head in the form of HTTP/1, so that the same gate judges both.
void Http2Session::finish_head(Http2Stream& stream) {
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
  if (head.method == "CONNECT" && stream.protocol == "websocket") {
    stream.wants_websocket = true;
    head.method = "GET";  // what the same request would be in HTTP/1
  }
  head.minor_version = 1;
  stream.refusal = gate_request(head);
  if (!stream.refusal && !head.headers.has("content-length") && !stream.input_ended) {
    head.framing = {Framing::Kind::kChunked, 0};  // a body of unknown length
    head.expects_continue = head.headers.has("expect");
  }
}

void Http2Session::end_stream(std::int32_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) {
    return;
  }
  const auto stream = found->second;
  streams_.erase(found);
  // What nobody will read still counts against the connection's window.
  nghttp2_session_consume_connection(session_, stream->input.size());
  stream->input.clear();
  stream->closed = true;
  stream->gone.set();
  stream->input_changed.set();
  stream->output_changed.set();
}

void Http2Session::close_streams() {
  while (!streams_.empty()) {
    end_stream(streams_.begin()->first);
  }
}

void Http2Session::consume(Http2Stream& stream, std::size_t bytes) {
  stream.input.erase(0, bytes);
  nghttp2_session_consume(session_, stream.id, bytes);
}

void Http2Session::abandon_input(Http2Stream& stream) {
  stream.abandoned = true;
  if (!stream.closed) {
    consume(stream, stream.input.size());
  }
}

void Http2Session::send_continue(const Http2Stream& stream) {
  std::string name = ":status";
  std::string value = "100";
  const nghttp2_nv field{reinterpret_cast<std::uint8_t*>(name.data()),
                         reinterpret_cast<std::uint8_t*>(value.data()), name.size(), value.size(),
                         NGHTTP2_NV_FLAG_NONE};
  nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, stream.id, nullptr, &field, 1, nullptr);
}

Result<> Http2Session::respond(Http2Stream& stream, int status, const Headers& fields,
                               bool has_body) {
  const std::string status_name = ":status";
  const std::string status_value = std::to_string(status);
  std::vector<nghttp2_nv> lines;
  const auto add = [&lines](const std::string& name, const std::string& value) {
    // nghttp2 copies; its type is not const for historical reasons.
    lines.push_back({reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                     reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
                     value.size(), NGHTTP2_NV_FLAG_NONE});
  };
  add(status_name, status_value);
  for (const auto& [name, value] : fields.lines()) {
    add(name, value);
  }
  nghttp2_data_provider provider{};
  provider.source.ptr = &stream;
  provider.read_callback = Http2Callbacks::read_output;
  const int submitted = nghttp2_submit_response(session_, stream.id, lines.data(), lines.size(),
                                                has_body ? &provider : nullptr);
  if (stream.closed || submitted != 0) {
    return fail(Code::kUnavailable, "the client has cancelled the request", "closed");
  }
  return {};
}

void Http2Session::resume(const Http2Stream& stream) {
  nghttp2_session_resume_data(session_, stream.id);
}

void Http2Session::reset(const Http2Stream& stream, bool our_fault) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id,
                            our_fault ? NGHTTP2_INTERNAL_ERROR : NGHTTP2_NO_ERROR);
}

void Http2Session::go_away() {
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
}

}  // namespace atl::http
