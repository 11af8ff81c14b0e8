#include <openssl/evp.h>

#include <algorithm>

#include "base/scope.h"
#include "s3/bucket_impl.h"
#include "s3/limits.h"
#include "s3/xml.h"

namespace atl::s3 {
namespace {

Result<> check_credential(std::string_view value, std::string_view name, std::size_t most) {
  const auto printable = [](char c) { return c > 0x20 && c < 0x7F; };
  if (value.size() > most || !std::ranges::all_of(value, printable)) {
    return fail(Code::kInvalidArgument,
                concat("s3.", name, " is at most ", most, " printable characters without spaces"));
  }
  return {};
}

Result<> check_credentials(const Credentials& credentials) {
  const auto id = credentials.access_key.reveal();
  if (id.empty() || id.contains('/') || id.contains(',') || credentials.secret_key.empty()) {
    return fail(Code::kInvalidArgument,
                "s3.access_key and s3.secret_key are needed, and a key id has no '/' and no ','");
  }
  TRY_DO(check_credential(id, "access_key", kMaxAccessKeyBytes));
  TRY_DO(check_credential(credentials.secret_key.reveal(), "secret_key", kMaxSecretKeyBytes));
  return check_credential(credentials.session_token.reveal(), "session_token",
                          kMaxSessionTokenBytes);
}

// S3 wants it for a multi-delete, as proof that the list arrived whole.
std::string content_md5(std::string_view bytes) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  CHECK(::EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()),
                     &size, ::EVP_md5(), nullptr) == 1);
  digest.resize(size);
  return base64_encode(digest);
}

std::string range_field(const Range& range) {
  const auto last = range.length ? concat(range.offset + *range.length - 1) : std::string{};
  return concat("bytes=", range.offset, "-", last);
}

class StreamedObject final : public ObjectReader {
 public:
  StreamedObject(Caller& caller, ObjectInfo info, Reply reply)
      : caller_(caller), info_(std::move(info)), reply_(std::move(reply)) {}

  const ObjectInfo& info() const override { return info_; }
  Task<std::size_t> read(std::span<char> buffer) override {
    if (!reply_.response) {
      co_return std::size_t{0};
    }
    auto got = co_await with_deadline(kStallTimeout, reply_.response->body().read(buffer));
    if (!got && got.error().code == Code::kDeadlineExceeded) {
      co_return fail(Code::kUnavailable, "the bucket's server stopped in the middle of an object",
                     "endpoint_unreachable");
    }
    if (got && *got == 0) {
      reply_.response.reset();
      caller_.park(std::move(reply_.client));
    }
    co_return std::move(got);
  }

 private:
  Caller& caller_;
  ObjectInfo info_;
  Reply reply_;
};

}  // namespace

Bucket::Bucket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Bucket::~Bucket() = default;

Result<std::unique_ptr<Bucket>> Bucket::open(Surroundings& surroundings, const Location& location,
                                             Credentials credentials, const std::string& team_id) {
  TRY(Endpoint endpoint, locate(location));
  TRY_DO(check_credentials(credentials));
  return std::unique_ptr<Bucket>{new Bucket{std::make_unique<Impl>(
      Impl{Caller{surroundings, std::move(endpoint), std::move(credentials), team_id}})}};
}

Task<ObjectInfo> Bucket::head(std::string key) {
  CO_TRY_DO(check_key(key));
  const Call call{.method = "HEAD", .key = key};
  CO_TRY(const Reply reply, co_await impl_->caller.run(call));
  co_return object_of_headers(std::move(key), reply.headers);
}

Task<std::unique_ptr<ObjectReader>> Bucket::get(std::string key, GetOptions options) {
  CO_TRY_DO(check_key(key));
  Call call{.method = "GET", .key = key, .streamed = true};
  if (options.range) {
    call.headers.add("range", range_field(*options.range));
  }
  if (!options.if_match.empty()) {
    call.headers.add("if-match", concat("\"", options.if_match, "\""));
  }
  CO_TRY(Reply reply, co_await impl_->caller.run(call));
  if (options.range && reply.status != 206) {
    co_return fail(Code::kUnavailable, "the bucket's server ignores ranges");
  }
  CO_TRY(auto info, object_of_headers(std::move(key), reply.headers));
  co_return std::make_unique<StreamedObject>(impl_->caller, std::move(info), std::move(reply));
}

Task<> Bucket::copy(std::string from, std::string to) {
  CO_TRY_DO(check_key(from));
  CO_TRY_DO(check_key(to));
  const Call call{.method = "PUT",
                  .key = to,
                  .headers = {{"x-amz-copy-source", impl_->caller.copy_source(from)}}};
  CO_TRY(const Reply reply, co_await impl_->caller.run(call));
  if (auto error = error_inside(reply.body)) {
    co_return fail(*std::move(error));
  }
  co_return ok();
}

Task<> Bucket::remove(std::string key) {
  CO_TRY_DO(check_key(key));
  const Call call{.method = "DELETE", .key = key};
  const auto reply = co_await impl_->caller.run(call);
  if (!reply && reply.error().reason != "NoSuchKey") {
    co_return fail(reply.error());
  }
  co_return ok();
}

Task<> Bucket::remove_all(std::vector<std::string> keys) {
  for (std::size_t begin = 0; begin < keys.size(); begin += kMaxDeletedKeys) {
    const std::size_t end = std::min(begin + kMaxDeletedKeys, keys.size());
    std::string list = "<Delete><Quiet>true</Quiet>";
    std::size_t listed = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (const auto text = xml_text(keys[i])) {
        list += concat("<Object><Key>", *text, "</Key></Object>");
        ++listed;
      } else {  // a name that XML cannot carry goes alone
        CO_TRY_DO(co_await remove(keys[i]));
      }
    }
    if (listed > 0) {
      list += "</Delete>";
      CO_TRY_DO(co_await impl_->remove_listed(std::move(list)));
    }
  }
  co_return ok();
}

Task<> Bucket::Impl::remove_listed(std::string list) {
  Call call{.method = "POST", .key = {}, .query = {{"delete", ""}}, .body = std::move(list)};
  call.headers.add("content-md5", content_md5(call.body));
  call.headers.add("content-type", "application/xml");
  CO_TRY(const Reply reply, co_await caller.run(call));
  co_return parse_deleted(reply.body);
}

Task<Listing> Bucket::list(ListOptions options) {
  Call call{.method = "GET", .key = {}};
  call.query = {{"list-type", "2"},
                {"encoding-type", "url"},
                {"max-keys", concat(std::min(options.max_keys, kMaxListedKeys))},
                {"prefix", options.prefix}};
  if (options.by_directory) {
    call.query.emplace_back("delimiter", "/");
  }
  if (!options.continuation.empty()) {
    call.query.emplace_back("continuation-token", options.continuation);
  }
  CO_TRY(const Reply reply, co_await impl_->caller.run(call));
  CO_TRY(auto listing, parse_listing(reply.body));
  const auto is_under = [&options](std::string_view key) {
    return key.starts_with(options.prefix);
  };
  if (!std::ranges::all_of(listing.objects, is_under, &ObjectInfo::key) ||
      !std::ranges::all_of(listing.prefixes, is_under)) {
    co_return fail(Code::kUnavailable, "the bucket's server listed what was not asked for");
  }
  if (listing.objects.empty() && listing.prefixes.empty() && !listing.next.empty()) {
    co_return fail(Code::kUnavailable, "the bucket's server lists nothing and says there is more");
  }
  co_return std::move(listing);
}

}  // namespace atl::s3
