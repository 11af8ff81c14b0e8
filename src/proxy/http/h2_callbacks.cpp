#include "proxy/http/h2_callbacks.h"

#include "proxy/http/limits.h"

namespace atl::proxy::http {
namespace {

constexpr std::size_t kFrameHeadBytes = 9;

}  // namespace

struct H2Events {
  static H2Session& self(void* user) { return *static_cast<H2Session*>(user); }

  static int on_begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    auto& me = self(user);
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
      return 0;
    }
    const auto id = frame->hd.stream_id;
    if (me.handlers_ >= kMaxH2Streams * 2) {
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
      return 0;
    }
    auto stream = std::make_shared<H2Stream>();
    stream->id = id;
    me.streams_.emplace(id, std::move(stream));
    return 0;
  }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* user) {
    auto& me = self(user);
    if (auto* stream = me.find(frame->hd.stream_id)) {
      me.add_field(*stream, {reinterpret_cast<const char*>(name), name_size},
                   {reinterpret_cast<const char*>(value), value_size});
    }
    return 0;
  }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto& me = self(user);
    const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS:
      case NGHTTP2_DATA:
        if (auto* stream = me.find(frame->hd.stream_id)) {
          stream->input_ended = stream->input_ended || ends;
          if (frame->hd.type == NGHTTP2_HEADERS) {
            me.end_headers(*stream);
          }
          stream->input_changed.set();
        }
        if (frame->hd.type == NGHTTP2_DATA && frame->hd.length == 0 && !ends) {
          judge_chore(me);
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
        judge_chore(me);
        break;
      case NGHTTP2_GOAWAY:
        me.peer_leaves_ = true;
        break;
      default:
        break;
    }
    return 0;
  }

  static void judge_chore(H2Session& me) {
    if (!me.chores_.take(me.now_)) {
      me.punish();
    }
  }

  static int on_data(nghttp2_session* session, std::uint8_t, std::int32_t id,
                     const std::uint8_t* data, std::size_t size, void* user) {
    auto* stream = self(user).find(id);
    if (stream == nullptr) {
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

  // Says how much there is; the bytes themselves are taken by send_data. Both look the stream up:
  // nghttp2 may still hold one that was ended because the connection is over.
  static ssize_t read_output(nghttp2_session* session, std::int32_t id, std::uint8_t*,
                             std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                             void* user) {
    auto* found = self(user).find(id);
    if (found == nullptr) {
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    auto& stream = *found;
    if (stream.output.empty() && !stream.output_ended) {
      return NGHTTP2_ERR_DEFERRED;
    }
    const auto taken = std::min(size, stream.output.size());
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (taken == stream.output.size() && stream.output_ended) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (!stream.output_trailers.lines().empty()) {
        H2Lines lines;
        if (lines.add_all(stream.output_trailers) &&
            nghttp2_submit_trailer(session, id, lines.data(), lines.size()) == 0) {
          *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        }
      }
      if (taken == 0) {  // nghttp2 sends no empty frame before trailers, so send_data may not come
        stream.output_done = true;
        stream.output_changed.set();
      }
    }
    return static_cast<ssize_t>(taken);
  }

  static int send_data(nghttp2_session*, nghttp2_frame* frame, const std::uint8_t* head,
                       std::size_t size, nghttp2_data_source*, void* user) {
    auto& me = self(user);
    auto* found = me.find(frame->hd.stream_id);
    if (found == nullptr || found->output.size() < size) {
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    auto& stream = *found;
    me.output_->append(reinterpret_cast<const char*>(head), kFrameHeadBytes);
    if (frame->data.padlen > 0) {
      return NGHTTP2_ERR_CALLBACK_FAILURE;  // we never pad
    }
    me.output_->append(stream.output.substr(0, size));
    stream.output.remove_prefix(size);
    if (stream.output.empty()) {
      stream.output_done = stream.output_ended;
      stream.output_changed.set();
    }
    return 0;
  }

  static nghttp2_session* make(H2Session& me, H2Role role) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_option* option = nullptr;
    nghttp2_session* session = nullptr;
    CHECK(nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_outbound_ack(option, 128);
    nghttp2_option_set_max_send_header_block_length(option, kHeadLimits.bytes * 2);
    CHECK((role == H2Role::kServer
               ? nghttp2_session_server_new2(&session, callbacks, &me, option)
               : nghttp2_session_client_new2(&session, callbacks, &me, option)) == 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return session;
  }
};

nghttp2_session* H2Callbacks::make(H2Session& me, H2Role role) {
  return H2Events::make(me, role);
}

nghttp2_data_provider H2Callbacks::body() {
  return {.source = {.ptr = nullptr}, .read_callback = H2Events::read_output};
}

}  // namespace atl::proxy::http
