// Uploading: what fits into one part is one PUT; more is a multipart upload, which S3 makes one
// object of at its end or never. Each part is in memory while it is sent, so that it can be signed
// and sent again; what all uploads hold together is bounded.
//
// The end of a multipart upload is the one call whose repetition does not answer the same: when its
// answer is lost, the second says that there is no such upload. So an upload writes a random mark
// beside the object, and looks for it when it does not know.
#include <algorithm>

#include "base/log.h"
#include "base/random.h"
#include "base/scope.h"
#include "s3/bucket_impl.h"
#include "s3/limits.h"
#include "s3/xml.h"

namespace atl::s3 {
namespace {

// A share of the memory for uploads, given back when it goes.
class Share {
 public:
  static Result<Share> take(Surroundings& surroundings, std::size_t bytes) {
    if (surroundings.upload_bytes + bytes > kMaxUploadBytes) {
      return fail(Code::kResourceExhausted, "too many uploads to buckets at once; try again later");
    }
    return Share{surroundings, bytes};
  }
  Share(Share&& other) noexcept
      : surroundings_(other.surroundings_), bytes_(std::exchange(other.bytes_, 0)) {}
  Share& operator=(Share&&) = delete;
  ~Share() { surroundings_.upload_bytes -= bytes_; }

 private:
  Share(Surroundings& surroundings, std::size_t bytes)
      : surroundings_(surroundings), bytes_(bytes) {
    surroundings_.upload_bytes += bytes_;
  }
  Surroundings& surroundings_;
  std::size_t bytes_;
};

// Up to `most` bytes; fewer only at the end.
Task<std::string> fill(Source& source, std::size_t most) {
  constexpr std::size_t kStepBytes = std::size_t{256} * 1024;
  std::string part;
  std::size_t size = 0;
  while (size < most) {
    part.resize(std::min(most, size + kStepBytes));
    CO_TRY(const std::size_t got, co_await source(std::span{part}.subspan(size)));
    if (got == 0) {
      break;
    }
    size += got;
  }
  part.resize(size);
  co_return std::move(part);
}

std::string etag_of(const http::Headers& headers) {
  std::string etag{trim(headers.get("etag"))};
  std::erase(etag, '"');
  return etag;
}

class Upload {
 public:
  Upload(Bucket& bucket, Caller& caller, std::string key)
      : bucket_(bucket), caller_(caller), key_(std::move(key)) {}

  Task<ObjectInfo> run(std::string first, Source& source, std::optional<std::uint64_t> length) {
    CO_TRY_DO(co_await begin());
    auto made = co_await send_parts(std::move(first), source, length);
    if (!made) {
      // Parts that nobody completes would be kept, and paid for, for ever.
      auto aborted = co_await shielded(with_deadline(kAbortTimeout, abort()));
      if (!aborted) {
        LOG_WARN("an upload to a bucket could not be aborted", {"error", aborted.error()});
      }
    }
    co_return std::move(made);
  }

 private:
  Task<> begin() {
    const Call call{.method = "POST",
                    .key = key_,
                    .query = {{"uploads", ""}},
                    .headers = {{"x-amz-meta-atoll-upload", mark_}}};
    CO_TRY(const Reply reply, co_await caller_.run(call));
    CO_TRY(id_, parse_upload_id(reply.body));
    co_return ok();
  }

  Task<ObjectInfo> send_parts(std::string part, Source& source,
                              std::optional<std::uint64_t> length) {
    std::uint64_t total = 0;
    while (!part.empty()) {
      total += part.size();
      if (etags_.size() == kMaxParts) {
        co_return fail(Code::kResourceExhausted,
                       concat("a file in a bucket has at most ", kMaxObjectBytes, " bytes"));
      }
      const bool last = part.size() < kPartBytes;
      CO_TRY_DO(co_await send_part(std::move(part)));
      part.clear();
      if (!last) {
        CO_TRY(part, co_await fill(source, kPartBytes));
      }
    }
    if (length && *length != total) {
      co_return fail(Code::kAborted, "the content ended before its announced length");
    }
    CO_TRY(std::string etag, co_await complete());
    co_return ObjectInfo{.key = key_,
                         .size = total,
                         .etag = std::move(etag),
                         .modified = caller_.surroundings().clock.now(),
                         .upload_mark = mark_};
  }

  Task<> send_part(std::string part) {
    const Call call{.method = "PUT",
                    .key = key_,
                    .query = {{"partNumber", concat(etags_.size() + 1)}, {"uploadId", id_}},
                    .body = std::move(part)};
    CO_TRY(const Reply reply, co_await caller_.run(call));
    etags_.push_back(etag_of(reply.headers));
    if (etags_.back().empty()) {
      co_return fail(Code::kUnavailable, "the bucket's server gave a part no ETag");
    }
    co_return ok();
  }

  Task<std::string> complete() {
    std::string list = "<CompleteMultipartUpload>";
    for (std::size_t i = 0; i < etags_.size(); ++i) {
      CO_TRY(const std::string etag, xml_text(etags_[i]));
      list +=
          concat("<Part><PartNumber>", i + 1, "</PartNumber><ETag>\"", etag, "\"</ETag></Part>");
    }
    const Call call{.method = "POST",
                    .key = key_,
                    .query = {{"uploadId", id_}},
                    .headers = {{"content-type", "application/xml"}},
                    .body = list + "</CompleteMultipartUpload>"};
    auto reply = co_await caller_.run(call);
    std::optional<Error> error =
        reply ? error_inside(reply->body) : std::optional{std::move(reply).error()};
    if (error && error->code != Code::kUnavailable && error->reason != "NoSuchUpload") {
      co_return fail(*std::move(error));
    }
    if (!error) {
      const auto root = parse_xml(reply->body);
      std::string etag{root->text_of("ETag")};
      std::erase(etag, '"');
      co_return std::move(etag);
    }
    const auto there = co_await bucket_.head(key_);
    if (there && there->upload_mark == mark_) {
      co_return there->etag;
    }
    co_return fail(*std::move(error));
  }

  Task<> abort() {
    const Call call{.method = "DELETE", .key = key_, .query = {{"uploadId", id_}}};
    auto reply = co_await caller_.run(call);
    if (!reply && reply.error().reason != "NoSuchUpload") {
      co_return fail(std::move(reply).error());
    }
    co_return ok();
  }

  Bucket& bucket_;
  Caller& caller_;
  std::string key_;
  std::string mark_ = random_hex(32);
  std::string id_;
  std::vector<std::string> etags_;
};

}  // namespace

Task<ObjectInfo> Bucket::put(std::string key, std::optional<std::uint64_t> length, Source source) {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    co_return fail(Code::kInvalidArgument, concat("the name of an object is 1 to ", kMaxKeyBytes,
                                                  " bytes; use a shorter path"));
  }
  if (length && *length > kMaxObjectBytes) {
    co_return fail(Code::kResourceExhausted,
                   concat("a file in a bucket has at most ", kMaxObjectBytes, " bytes"));
  }
  const auto held =
      static_cast<std::size_t>(std::min<std::uint64_t>(length.value_or(kPartBytes), kPartBytes));
  CO_TRY(const Share share, Share::take(impl_->caller.surroundings(), held));
  CO_TRY(std::string first, co_await fill(source, kPartBytes));
  if (first.size() < kPartBytes) {
    if (length && *length != first.size()) {
      co_return fail(Code::kAborted, "the content ended before its announced length");
    }
    co_return co_await put_bytes(std::move(key), std::move(first));
  }
  Upload upload{*this, impl_->caller, std::move(key)};
  co_return co_await upload.run(std::move(first), source, length);
}

}  // namespace atl::s3
