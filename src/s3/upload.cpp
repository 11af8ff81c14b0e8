// Writing objects: what fits into one part is one PUT; more is a multipart upload, which S3 makes
// one object of at its end or never. Each part is in memory while it is sent, so that it can be
// signed and sent again; what all uploads hold together is bounded.
//
// Two calls do not answer the same when they are repeated because an answer was lost: the end of a
// multipart upload (the second says that there is no such upload) and a write on a condition (the
// second does not find what the first has replaced). So each object gets a random mark beside it,
// and is looked at when we do not know.
#include <algorithm>

#include "base/random.h"
#include "base/scope.h"
#include "s3/bucket_impl.h"
#include "s3/xml.h"

namespace atl::s3 {
namespace {

constexpr std::size_t kShareStepBytes = std::size_t{256} * 1024;
constexpr const char* kMarkField = "x-amz-meta-atoll-upload";

// A share of the memory for uploads: grows with the part, is given back when it goes.
class Share {
 public:
  explicit Share(Caller& caller) : surroundings_(caller.surroundings()), team_(caller.share()) {}
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  ~Share() {
    surroundings_.upload_bytes -= held_;
    team_.upload_bytes -= held_;
  }

  Result<> hold(std::size_t bytes) {
    const std::size_t wanted = (bytes + kShareStepBytes - 1) / kShareStepBytes * kShareStepBytes;
    if (wanted <= held_) {
      return {};
    }
    if (surroundings_.upload_bytes + wanted - held_ > kMaxUploadBytes ||
        team_.upload_bytes + wanted - held_ > kMaxTeamUploadBytes) {
      return fail(Code::kResourceExhausted, "too many uploads to buckets at once; try again later");
    }
    surroundings_.upload_bytes += wanted - held_;
    team_.upload_bytes += wanted - held_;
    held_ = wanted;
    return {};
  }

 private:
  Surroundings& surroundings_;
  TeamShare& team_;
  std::size_t held_ = 0;
};

std::string etag_of(const http::Headers& headers) {
  std::string etag{trim(headers.get("etag"))};
  std::erase(etag, '"');
  return etag;
}

void add_conditions(http::Headers& headers, const PutOptions& options) {
  if (options.only_new) {
    headers.add("if-none-match", "*");
  }
  if (!options.if_match.empty()) {
    headers.add("if-match", concat("\"", options.if_match, "\""));
  }
}

class Upload final : public ObjectWriter {
 public:
  Upload(Bucket& bucket, Caller& caller, std::string key, PutOptions options)
      : bucket_(bucket),
        caller_(caller),
        key_(std::move(key)),
        options_(std::move(options)),
        share_(caller) {}

  Task<> write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const auto some = bytes.substr(0, kPartBytes - part_.size());
      CO_TRY_DO(share_.hold(part_.size() + some.size()));
      part_ += some;
      bytes.remove_prefix(some.size());
      if (part_.size() == kPartBytes) {
        CO_TRY_DO(co_await send_part());
      }
    }
    co_return ok();
  }

  Task<ObjectInfo> finish() override {
    if (id_.empty()) {
      co_return co_await bucket_.put_bytes(key_, std::move(part_), options_);
    }
    if (!part_.empty()) {
      CO_TRY_DO(co_await send_part());
    }
    CO_TRY(std::string etag, co_await complete());
    id_.clear();
    co_return ObjectInfo{.key = key_,
                         .size = sent_bytes_,
                         .etag = std::move(etag),
                         .modified = caller_.surroundings().clock.now(),
                         .upload_mark = mark_};
  }

  Task<> abandon() override {
    if (id_.empty()) {
      co_return ok();
    }
    const Call call{.method = "DELETE", .key = key_, .query = {{"uploadId", id_}}};
    auto reply = co_await with_deadline(kAbortTimeout, caller_.run(call));
    if (!reply && reply.error().reason != "NoSuchUpload") {
      co_return fail(std::move(reply).error());
    }
    id_.clear();
    co_return ok();
  }

 private:
  Task<> begin() {
    const Call call{.method = "POST",
                    .key = key_,
                    .query = {{"uploads", ""}},
                    .headers = {{kMarkField, mark_}}};
    CO_TRY(const Reply reply, co_await caller_.run(call));
    CO_TRY(id_, parse_upload_id(reply.body));
    co_return ok();
  }

  Task<> send_part() {
    if (id_.empty()) {
      CO_TRY_DO(co_await begin());
    }
    if (etags_.size() == kMaxParts) {
      co_return fail(Code::kResourceExhausted,
                     concat("a file in a bucket has at most ", kMaxObjectBytes, " bytes"));
    }
    const Call call{.method = "PUT",
                    .key = key_,
                    .query = {{"partNumber", concat(etags_.size() + 1)}, {"uploadId", id_}},
                    .body = std::exchange(part_, {})};
    CO_TRY(const Reply reply, co_await caller_.run(call));
    etags_.push_back(etag_of(reply.headers));
    sent_bytes_ += call.body.size();
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
    Call call{.method = "POST",
              .key = key_,
              .query = {{"uploadId", id_}},
              .headers = {{"content-type", "application/xml"}},
              .body = list + "</CompleteMultipartUpload>"};
    add_conditions(call.headers, options_);
    auto reply = co_await caller_.run(call);
    std::optional<Error> error =
        reply ? error_inside(reply->body) : std::optional{std::move(reply).error()};
    if (!error) {
      CO_TRY(const auto root, parse_xml(reply->body));
      std::string etag{root.text_of("ETag")};
      std::erase(etag, '"');
      co_return std::move(etag);
    }
    const bool unsure = error->code == Code::kUnavailable || error->reason == "NoSuchUpload" ||
                        error->reason == "PreconditionFailed";
    if (unsure) {
      const auto there = co_await bucket_.head(key_);
      if (there && there->upload_mark == mark_) {
        co_return there->etag;
      }
    }
    co_return fail(*std::move(error));
  }

  Bucket& bucket_;
  Caller& caller_;
  const std::string key_;
  const PutOptions options_;
  const std::string mark_ = random_hex(32);
  Share share_;
  std::string part_;
  std::string id_;  // of a multipart upload that has begun
  std::vector<std::string> etags_;
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<ObjectWriter>> Bucket::put(std::string key, PutOptions options) {
  TRY_DO(check_key(key));
  return std::make_unique<Upload>(*this, impl_->caller, std::move(key), std::move(options));
}

Task<ObjectInfo> Bucket::put_bytes(std::string key, std::string bytes, PutOptions options) {
  CO_TRY_DO(check_key(key));
  const std::string mark = random_hex(32);
  Call call{.method = "PUT", .key = key, .headers = {{kMarkField, mark}}, .body = std::move(bytes)};
  add_conditions(call.headers, options);
  auto reply = co_await impl_->caller.run(call);
  if (!reply && reply.error().reason == "PreconditionFailed") {
    auto there = co_await head(key);
    if (there && there->upload_mark == mark) {
      co_return std::move(there);
    }
  }
  if (!reply) {
    co_return fail(std::move(reply).error());
  }
  co_return ObjectInfo{.key = std::move(key),
                       .size = call.body.size(),
                       .etag = etag_of(reply->headers),
                       .modified = impl_->caller.surroundings().clock.now(),
                       .upload_mark = mark};
}

}  // namespace atl::s3
