// What the client does when a server has trouble: an HTTP server of ours answers by a script. That
// a real server of buckets agrees with the client is tested in
// tests/integration/test_volumes_s3.py.
#include <gtest/gtest.h>

#include <deque>

#include "base/strings.h"
#include "http/test_server.h"
#include "io/offload.h"
#include "s3/limits.h"
#include "s3/room.h"
#include "tls/context.h"

namespace atl::s3 {
namespace {

using namespace std::chrono_literals;

struct Step {
  int status = 200;
  http::Headers headers;
  std::string body;
  bool cut = false;        // closes the connection instead of answering
  bool echo_mark = false;  // what the client wrote beside the object comes with it
};

struct Seen {
  std::string method;
  std::string target;
  std::string host;
  std::string body;
};

class BucketTest : public ::testing::Test {
 protected:
  BucketTest() : server_([this](http::Exchange& exchange) { return answer(*this, exchange); }) {
    location_.bucket = "data";
    location_.endpoint_url = concat("http://127.0.0.1:", server_.url().port);
  }

  static Task<> answer(BucketTest& test, http::Exchange& exchange) {
    const auto& request = exchange.request();
    Seen seen{request.method, request.target, std::string{request.headers.get("host")}, {}};
    CO_TRY(seen.body, co_await http::read_all(exchange.body(), kPartBytes + 1));
    test.seen_.push_back(std::move(seen));
    if (const auto mark = request.headers.get("x-amz-meta-atoll-upload"); !mark.empty()) {
      test.mark_ = mark;
    }
    if (test.script_.empty()) {
      co_return co_await exchange.respond({.status = 599, .headers = {}, .body = {}});
    }
    Step step = std::move(test.script_.front());
    test.script_.pop_front();
    if (step.cut) {
      CO_TRY_DO(co_await exchange.start(200, {}, 100));
      co_return fail(Code::kAborted, "cut");
    }
    if (step.echo_mark) {
      step.headers.set("x-amz-meta-atoll-upload", test.mark_);
    }
    co_return co_await exchange.respond(
        {.status = step.status, .headers = step.headers, .body = step.body});
  }

  std::unique_ptr<Bucket> open(const char* allowed = "127.0.0.1", const char* team = "team") {
    surroundings_.policy = EndpointPolicy::parse(allowed).value();
    return Bucket::open(surroundings_, location_,
                        {secrets::Plaintext{"key"}, secrets::Plaintext{"hidden"}, {}}, team)
        .value();
  }

  // Writes, and abandons what could not be written.
  static Task<ObjectInfo> write(Bucket& bucket, std::string content, PutOptions options = {}) {
    CO_TRY(const auto writer, bucket.put("k", std::move(options)));
    auto written = co_await writer->write(content);
    if (written) {
      auto info = co_await writer->finish();
      if (info) {
        co_return std::move(info);
      }
      written = fail(std::move(info).error());
    }
    (void)co_await writer->abandon();
    co_return fail(std::move(written).error());
  }

  static constexpr const char* kStarted =
      "<InitiateMultipartUploadResult><UploadId>id</UploadId></InitiateMultipartUploadResult>";

  http::TestServer server_;
  io::OffloadPool pool_{"resolve", 1, 16};
  const std::unique_ptr<tls::Context> tls_ = tls::Context::client({}).value();
  SystemWallClock clock_;
  Surroundings surroundings_{.reactor = server_.reactor(),
                             .threads = pool_,
                             .resolvers = pool_,
                             .tls = *tls_,
                             .clock = clock_,
                             .policy = {}};
  Location location_;
  std::deque<Step> script_;
  std::vector<Seen> seen_;
  std::string mark_;
};

TEST_F(BucketTest, PassingTroubleIsTriedAgain) {
  script_ = {{.status = 503, .body = "<Error><Code>SlowDown</Code></Error>"},
             {.cut = true},
             {.status = 500},
             {.status = 200, .headers = {{"etag", "\"e\""}}}};
  const auto bucket = open();
  const auto put = server_.run(bucket->put_bytes("a b", "content"));
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->etag, "e");
  ASSERT_EQ(seen_.size(), 4U);
  EXPECT_EQ(seen_[3].target, "/data/a%20b");
  EXPECT_EQ(seen_[3].body, "content");
}

TEST_F(BucketTest, TroubleThatStaysEndsAfterAFewAttempts) {
  const auto bucket = open();
  const auto head = server_.run(bucket->head("a"));
  ASSERT_FALSE(head);
  EXPECT_EQ(head.error().code, Code::kUnavailable);
  EXPECT_EQ(seen_.size(), static_cast<std::size_t>(kMaxAttempts));
}

TEST_F(BucketTest, ARefusalIsNotRepeatedAndNamesNoSecret) {
  script_ = {{.status = 403, .body = "<Error><Code>AccessDenied</Code><X>hidden</X></Error>"}};
  const auto bucket = open();
  const auto put = server_.run(bucket->put_bytes("a", "x"));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Code::kPermissionDenied);
  EXPECT_EQ(put.error().reason, "AccessDenied");
  EXPECT_FALSE(put.error().message.contains("hidden"));
  EXPECT_EQ(seen_.size(), 1U);
}

TEST_F(BucketTest, RedirectsAreNotFollowed) {
  script_ = {{.status = 307, .headers = {{"location", location_.endpoint_url + "/other"}}}};
  const auto bucket = open();
  EXPECT_FALSE(server_.run(bucket->head("a")));
  EXPECT_EQ(seen_.size(), 1U);
}

TEST_F(BucketTest, AnEndpointThatIsNotPublicIsNeverDialled) {
  const auto bucket = open("");
  const auto head = server_.run(bucket->head("a"));
  ASSERT_FALSE(head);
  EXPECT_EQ(head.error().reason, "endpoint_refused");
  EXPECT_EQ(server_.connections_seen(), 0U);
}

TEST_F(BucketTest, AFailedUploadIsAborted) {
  script_ = {{.body = kStarted},
             {.headers = {{"etag", "\"1\""}}},
             {.status = 403, .body = "<Error><Code>AccessDenied</Code></Error>"},
             {.status = 204}};
  const auto bucket = open();
  const auto put = server_.run(write(*bucket, std::string(kPartBytes + 1, 'x')));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().reason, "AccessDenied");
  ASSERT_EQ(seen_.size(), 4U);
  EXPECT_EQ(seen_[3].method, "DELETE");
  EXPECT_EQ(seen_[3].target, "/data/k?uploadId=id");
  EXPECT_EQ(surroundings_.upload_bytes, 0U);
}

TEST_F(BucketTest, AnAnswer200WithAnErrorInsideIsAnError) {
  script_ = {{.body = kStarted},
             {.headers = {{"etag", "\"1\""}}},
             {.body = "<Error><Code>InvalidPart</Code></Error>"},
             {.status = 404},
             {.status = 204}};
  const auto bucket = open();
  EXPECT_FALSE(server_.run(write(*bucket, std::string(kPartBytes, 'x'))));
  EXPECT_EQ(seen_.back().method, "DELETE");
}

TEST_F(BucketTest, ALostLastAnswerIsLookedAfter) {
  script_ = {{.body = kStarted},
             {.headers = {{"etag", "\"1\""}}},
             {.cut = true},
             {.status = 404, .body = "<Error><Code>NoSuchUpload</Code></Error>"},
             {.headers = {{"etag", "\"made-1\""}}, .echo_mark = true}};
  const auto bucket = open();
  const auto put_it = server_.run(write(*bucket, std::string(kPartBytes, 'x')));
  ASSERT_TRUE(put_it) << put_it.error().message;
  EXPECT_EQ(put_it->etag, "made-1");
  EXPECT_EQ(put_it->size, kPartBytes);
  EXPECT_EQ(seen_.back().method, "HEAD");
}

TEST_F(BucketTest, AConditionThatFailsBecauseWeMetItIsNoFailure) {
  script_ = {{.cut = true},
             {.status = 412, .body = "<Error><Code>PreconditionFailed</Code></Error>"},
             {.headers = {{"etag", "\"made\""}}, .echo_mark = true}};
  const auto bucket = open();
  EXPECT_EQ(server_.run(write(*bucket, "x", {.only_new = true}))->etag, "made");
}

TEST_F(BucketTest, AConditionThatFailsIsSaidSo) {
  script_ = {{.status = 412, .body = "<Error><Code>PreconditionFailed</Code></Error>"},
             {.headers = {{"etag", "\"another\""}}}};
  const auto bucket = open();
  const auto refused = server_.run(write(*bucket, "x", {.only_new = true}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason, "PreconditionFailed");
}

TEST_F(BucketTest, AListingOfSomethingElseIsRefused) {
  script_ = {{.body = "<ListBucketResult><Contents><Key>other/x</Key><Size>1</Size></Contents>"
                      "</ListBucketResult>"}};
  const auto bucket = open();
  EXPECT_FALSE(server_.run(bucket->list({.prefix = "mine/"})));
}

TEST_F(BucketTest, WhatUploadsHoldIsBounded) {
  surroundings_.upload_bytes = kMaxUploadBytes;
  const auto bucket = open();
  const auto put = server_.run(write(*bucket, "x"));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Code::kResourceExhausted);
}

TEST_F(BucketTest, CredentialsThatCannotBeSentAreRefused) {
  for (const auto& [id, key] : std::vector<std::pair<std::string, std::string>>{
           {"", "x"}, {"x", ""}, {"a b", "x"}, {"a/b", "x"}, {"a\r\nb", "x"}, {"a", "x\n"}}) {
    const auto opened = Bucket::open(surroundings_, location_,
                                     {secrets::Plaintext{id}, secrets::Plaintext{key}, {}}, "team");
    EXPECT_FALSE(opened) << id;
  }
}

// Such a server could keep us for ever.
TEST_F(BucketTest, AnEmptyPageThatSaysThereIsMoreIsRefused) {
  script_ = {{.body = "<ListBucketResult><IsTruncated>true</IsTruncated>"
                      "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>"}};
  const auto bucket = open();
  const auto listed = server_.run(bucket->list({}));
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code, Code::kUnavailable);
}

TEST_F(BucketTest, ATeamHasAShareOfTheMemoryForUploads) {
  const auto bucket = open();
  surroundings_.teams["team"].upload_bytes = kMaxTeamUploadBytes;
  EXPECT_EQ(server_.run(write(*bucket, "x")).error().code, Code::kResourceExhausted);
  surroundings_.teams["team"].upload_bytes = 0;
}

}  // namespace
}  // namespace atl::s3
