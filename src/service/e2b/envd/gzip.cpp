#include "service/e2b/envd/gzip.h"

#include <zlib.h>

namespace atl::service::e2b::envd {
namespace {

constexpr int kGzipWindowBits = 15 + 16;
constexpr int kMemoryLevel = 8;
constexpr std::size_t kPieceBytes = std::size_t{64} * 1024;

Bytef* bytes_of(std::string_view text) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
}

}  // namespace

struct GzipWriter::Impl {
  z_stream stream{};
};

GzipWriter::GzipWriter() : impl_(std::make_unique<Impl>()) {
  // The fastest: whoever compresses here keeps everybody else waiting.
  CHECK(::deflateInit2(&impl_->stream, Z_BEST_SPEED, Z_DEFLATED, kGzipWindowBits, kMemoryLevel,
                       Z_DEFAULT_STRATEGY) == Z_OK);
}

GzipWriter::~GzipWriter() {
  ::deflateEnd(&impl_->stream);
}

std::string GzipWriter::add(std::string_view bytes) {
  return run(bytes, Z_NO_FLUSH);
}

std::string GzipWriter::finish() {
  return run({}, Z_FINISH);
}

std::string GzipWriter::run(std::string_view bytes, int flush) {
  z_stream& stream = impl_->stream;
  stream.next_in = bytes_of(bytes);
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  std::string piece(kPieceBytes, '\0');
  do {
    stream.next_out = bytes_of(piece);
    stream.avail_out = static_cast<uInt>(piece.size());
    CHECK(::deflate(&stream, flush) != Z_STREAM_ERROR);
    out.append(piece, 0, piece.size() - stream.avail_out);
  } while (stream.avail_out == 0);
  return out;
}

struct GunzipBody::Impl {
  z_stream stream{};
  std::string input = std::string(kPieceBytes, '\0');
  bool ended = false;  // a member has ended: another may follow
  bool started = false;
};

GunzipBody::GunzipBody(http::Body& inner) : inner_(inner), impl_(std::make_unique<Impl>()) {
  CHECK(::inflateInit2(&impl_->stream, kGzipWindowBits) == Z_OK);
}

GunzipBody::~GunzipBody() {
  ::inflateEnd(&impl_->stream);
}

Task<std::size_t> GunzipBody::read(std::span<char> buffer) {
  z_stream& stream = impl_->stream;
  stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
  stream.avail_out = static_cast<uInt>(buffer.size());
  while (stream.avail_out == buffer.size()) {
    if (stream.avail_in == 0) {
      CO_TRY(const auto got, co_await inner_.read(impl_->input));
      if (got == 0) {
        if (impl_->started && !impl_->ended) {
          co_return fail(Code::kInvalidArgument, "the gzip body is cut short");
        }
        co_return std::size_t{0};
      }
      stream.next_in = bytes_of(impl_->input);
      stream.avail_in = static_cast<uInt>(got);
      impl_->started = true;
    }
    if (impl_->ended) {
      CHECK(::inflateReset(&stream) == Z_OK);
      impl_->ended = false;
    }
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    impl_->ended = status == Z_STREAM_END;
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      co_return fail(Code::kInvalidArgument, "the body is not valid gzip");
    }
  }
  co_return buffer.size() - stream.avail_out;
}

}  // namespace atl::service::e2b::envd
