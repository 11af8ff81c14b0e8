// TLS that is opened, and HTTP/2 on either side, with real peers: OpenSSL and nghttp2.
#include <gtest/gtest.h>

#include "proxy/http/h2_link.h"
#include "proxy/http/h2_sides.h"
#include "proxy/http/test_boundary.h"

namespace atl::proxy::http {
namespace {

Task<std::unique_ptr<tls::TlsStream>> connect_inside(TestBoundary& boundary, StreamPtr below,
                                                     std::string name, std::string protocol) {
  std::shared_ptr<const tls::Context> context =
      *tls::Context::client({.trusted_pem = boundary.sandbox_authority.certificate_pem,
                             .protocols = {std::move(protocol)},
                             .identity = {}});
  co_return co_await tls::TlsStream::connect(std::move(below), context, std::move(name));
}

Task<std::string> get_over_tls(TestBoundary& boundary, StreamPtr below, std::string name) {
  CO_TRY(auto stream, co_await connect_inside(boundary, std::move(below), name, "http/1.1"));
  CO_TRY_DO(co_await stream->write(
      concat("GET /t HTTP/1.1\r\nHost: ", name, "\r\nConnection: close\r\n\r\n")));
  co_return co_await read_to_end(*stream);
}

std::string talk_over_tls(TestBoundary& boundary, Script& script, std::string name = "api.test") {
  boundary.server = [&script](TestBoundary& all, StreamPtr stream) {
    return play_secure(all, std::move(stream), script);
  };
  auto got = boundary.reactor.run_until_complete(
      with_service<std::string>(boundary, [&name](TestBoundary& all, StreamPtr stream) {
        return get_over_tls(all, std::move(stream), name);
      }));
  return got ? *got : "failed: " + got.error().message;
}

TEST(TlsRelay, IsOpenedWithALeafOfTheSandboxAndVerifiedUpstream) {
  TestBoundary boundary;
  boundary.use_tls();
  Script script;
  const auto got = talk_over_tls(boundary, script);
  EXPECT_EQ(200, status_of(got)) << got;
  EXPECT_TRUE(has(script.received, "host: api.test\r\n")) << script.received;
}

TEST(TlsRelay, AServerThatCannotBeVerifiedGetsNothing) {
  TestBoundary boundary;
  boundary.use_tls();
  const auto stranger = *tls::mint_authority({.common_name = "stranger"});
  boundary.server_leaf = *tls::mint_leaf(stranger, {.names = {"api.test"}});
  Script script;
  EXPECT_EQ(502, status_of(talk_over_tls(boundary, script)));
  EXPECT_EQ("", script.received);
  boundary.server_leaf = *tls::mint_leaf(boundary.server_authority, {.names = {"other.test"}});
  EXPECT_EQ(502, status_of(talk_over_tls(boundary, script)));
  EXPECT_EQ("", script.received);
}

TEST(TlsRelay, AnotherNameThanTheDecidedOneIsNotServed) {
  TestBoundary boundary;
  boundary.use_tls();
  Script script;
  const auto got = talk_over_tls(boundary, script, "evil.test");
  EXPECT_TRUE(got.starts_with("failed")) << got;
  boundary.first.hello->server_name = "evil.test";
  EXPECT_TRUE(talk_over_tls(boundary, script).starts_with("failed"));
  EXPECT_EQ(0, boundary.dials);
}

// A server that wants a certificate of the authority "clients".
TEST(TlsRelay, AClientCertificateIsShownOnlyUpstream) {
  TestBoundary boundary;
  boundary.use_tls();
  egress::CredentialRule rule;
  rule.name = "identity";
  rule.credential_ref = "me";
  rule.protocol = egress::CredentialProtocol::kTls;
  boundary.policy().credential_rules.push_back(rule);
  auto material = std::make_shared<egress::Material>();
  material->kind = egress::ProjectionKind::kTlsClientCertificate;
  const auto identity = *tls::mint_leaf(boundary.server_authority, {.names = {"client.test"}});
  material->certificate_pem = identity.certificate_pem;
  material->key_pem = identity.key_pem;
  material->ca_pem = boundary.server_authority.certificate_pem;
  material->source_version = "me@1";
  boundary.materials["me"] = material;
  boundary.surroundings.upstream_roots_pem = boundary.sandbox_authority.certificate_pem;
  Script script;
  EXPECT_EQ(200, status_of(talk_over_tls(boundary, script)));
  EXPECT_EQ("me@1", boundary.account->record.credential);
}

// --- HTTP/2 -------------------------------------------------------------------------------------

struct Answered {
  int status = 0;
  Headers headers;
  std::string body;
  Headers trailers;
};

struct Asked {
  RequestHead head;
  std::string body;
  Headers trailers;
};

Task<> answer_stream(std::shared_ptr<H2Link> link, std::shared_ptr<H2Stream> stream,
                     std::vector<Asked>& asked) {
  H2ClientSide side{*link, *stream};
  Asked one{.head = side.head()};
  std::string buffer(65536, '\0');
  for (;;) {
    CO_TRY(const auto got, co_await side.read(buffer));
    if (got == 0) {
      break;
    }
    one.body.append(buffer, 0, got);
  }
  one.trailers = side.trailers();
  asked.push_back(one);
  CO_TRY_DO(co_await side.start(
      {.status = 200, .headers = {{"content-type", "application/grpc"}}, .has_body = true}));
  CO_TRY_DO(co_await side.write("got " + one.body));
  CO_TRY_DO(co_await side.finish({}, {{"grpc-status", "0"}}));
  co_return ok();
}

Task<> answer_http2(TestBoundary& boundary, StreamPtr below, std::vector<Asked>& asked) {
  StreamPtr stream = std::move(below);
  if (boundary.first.protocol == egress::AppProtocol::kTls) {
    std::shared_ptr<const tls::Context> context = *tls::Context::server(
        {.identity = boundary.server_leaf, .protocols = {"h2"}, .insists = true});
    CO_TRY(stream, co_await tls::TlsStream::accept(std::move(stream), context));
  }
  Scope requests{co_await current_context()};
  const auto link = std::make_shared<H2Link>(H2Role::kServer, std::move(stream));
  (void)co_await H2Link::run(link, [&](std::shared_ptr<H2Stream> request) {
    requests.spawn("request", answer_stream(link, std::move(request), asked));
  });
  co_return co_await requests.cancel_and_join();
}

Task<Answered> ask(std::shared_ptr<H2Link> link, RequestHead head, std::string body) {
  H2ServerSide side{std::move(link), true, true};
  head.has_body = !body.empty();
  CO_TRY_DO(co_await side.start(head));
  CO_TRY_DO(co_await side.write(body));
  CO_TRY_DO(co_await side.finish({}));
  CO_TRY(auto answer, co_await side.read_head());
  Answered answered{.status = answer.status, .headers = answer.headers};
  std::string buffer(65536, '\0');
  while (answer.has_body) {
    CO_TRY(const auto got, co_await side.read(buffer));
    if (got == 0) {
      break;
    }
    answered.body.append(buffer, 0, got);
  }
  answered.trailers = side.trailers();
  co_return answered;
}

Task<Answered> ask_over_http2(TestBoundary& boundary, StreamPtr below, RequestHead head,
                              std::string body) {
  CO_TRY(auto stream, co_await connect_inside(boundary, std::move(below), "api.test", "h2"));
  if (stream->protocol() != "h2") {
    co_return fail(Code::kInternal, "no h2");
  }
  Scope scope{co_await current_context()};
  scope.on_error([](const char*, const Error&) {});
  auto link = std::make_shared<H2Link>(H2Role::kClient, std::move(stream));
  scope.spawn("link", H2Link::run(link));
  auto answered = co_await ask(link, std::move(head), std::move(body));
  (void)co_await scope.cancel_and_join();
  co_return std::move(answered);
}

Result<Answered> ask_http2(TestBoundary& boundary, RequestHead head, std::string body) {
  return boundary.reactor.run_until_complete(
      with_service<Answered>(boundary, [&](TestBoundary& all, StreamPtr stream) {
        return ask_over_http2(all, std::move(stream), head, body);
      }));
}

TEST(Http2Relay, GrpcPassesWithItsTrailers) {
  TestBoundary boundary;
  boundary.use_tls();
  std::vector<Asked> asked;
  boundary.server = [&asked](TestBoundary& all, StreamPtr stream) {
    return answer_http2(all, std::move(stream), asked);
  };
  auto got = ask_http2(boundary,
                       {.method = "POST",
                        .target = "/svc/Call",
                        .authority = "api.test",
                        .headers = {{"content-type", "application/grpc"}},
                        .accepts_trailers = true},
                       std::string(3 << 20, 'z'));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(200, got->status);
  EXPECT_EQ("got " + std::string(3 << 20, 'z'), got->body);
  EXPECT_EQ("0", got->trailers.get("grpc-status"));
  ASSERT_EQ(1U, asked.size());
  EXPECT_TRUE(asked[0].head.accepts_trailers);
  EXPECT_EQ("POST /svc/Call 200", boundary.account->record.operations[0]);
}

TEST(Http2Relay, IsTranslatedForAServerThatSpeaksHttp1) {
  TestBoundary boundary;
  boundary.use_tls();
  Script script;
  boundary.server = [&script](TestBoundary& all, StreamPtr stream) {
    return play_secure(all, std::move(stream), script);
  };
  auto got = ask_http2(
      boundary, {.method = "GET", .target = "/x", .authority = "api.test", .headers = {}}, "");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(200, got->status);
  EXPECT_EQ("ok", got->body);
  EXPECT_EQ("GET /x HTTP/1.1\r\nhost: api.test\r\n\r\n", script.received);
}

TEST(Http2Relay, AnHttp1ClientReachesAServerThatSpeaksOnlyHttp2) {
  TestBoundary boundary;
  boundary.use_tls();
  std::vector<Asked> asked;
  boundary.server = [&asked](TestBoundary& all, StreamPtr stream) {
    return answer_http2(all, std::move(stream), asked);
  };
  auto got = boundary.reactor.run_until_complete(
      with_service<std::string>(boundary, [](TestBoundary& all, StreamPtr stream) {
        return get_over_tls(all, std::move(stream), "api.test");
      }));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(200, status_of(*got)) << *got;
  EXPECT_TRUE(has(*got, "grpc-status: 0")) << *got;
}

Task<> count_answer(std::shared_ptr<H2Link> link, int& answered) {
  CO_TRY(
      const auto got,
      co_await ask(std::move(link),
                   {.method = "GET", .target = "/", .authority = "api.test", .headers = {}}, ""));
  answered += got.status == 200 ? 1 : 0;
  co_return ok();
}

Task<int> ask_at_once(TestBoundary& boundary, StreamPtr below, int times) {
  CO_TRY(auto stream, co_await connect_inside(boundary, std::move(below), "api.test", "h2"));
  int answered = 0;
  Scope link_scope{co_await current_context()};
  Scope requests{co_await current_context()};
  auto link = std::make_shared<H2Link>(H2Role::kClient, std::move(stream));
  link_scope.spawn("link", H2Link::run(link));
  for (int i = 0; i < times; ++i) {
    requests.spawn("request", count_answer(link, answered));
  }
  (void)co_await requests.join();
  (void)co_await link_scope.cancel_and_join();
  co_return answered;
}

TEST(Http2Relay, ManyStreamsShareFewConnectionsToAServerThatSpeaksHttp1) {
  TestBoundary boundary;
  boundary.use_tls();
  Script script;
  boundary.server = [&script](TestBoundary& all, StreamPtr stream) {
    return play_secure(all, std::move(stream), script);
  };
  const auto answered = boundary.reactor.run_until_complete(with_service<int>(
      boundary,
      [](TestBoundary& all, StreamPtr stream) { return ask_at_once(all, std::move(stream), 60); }));
  ASSERT_TRUE(answered) << answered.error().message;
  EXPECT_EQ(60, *answered);
  EXPECT_LE(boundary.dials, 16);
}

// A client that is gone may leave nghttp2 with a body whose writer is gone as well.
TEST(Http2Session, NothingIsTakenOutOfAStreamThatWasClosed) {
  H2Session client{H2Role::kClient};
  H2Session server{H2Role::kServer};
  std::string bytes;
  const auto asked = client.request(
      {.method = "GET", .target = "/", .authority = "api.test", .headers = {}}, true);
  ASSERT_TRUE(asked && client.take_output(bytes, 1 << 20) && server.feed(bytes, {}));
  auto requests = server.take_requests();
  ASSERT_EQ(1U, requests.size());
  ASSERT_TRUE(server.respond(*requests[0], {.status = 200, .headers = {}, .has_body = true}));
  requests[0]->output = "a body";
  server.close_streams();
  requests.clear();
  bytes.clear();
  ASSERT_TRUE(server.take_output(bytes, 1 << 20) && client.feed(bytes, {}));
  EXPECT_EQ("", (*asked)->input);
  EXPECT_TRUE((*asked)->closed);
}

TEST(Http2Relay, AnotherAuthorityOnTheSameConnectionIsRefused) {
  TestBoundary boundary;
  boundary.use_tls();
  Script script;
  boundary.server = [&script](TestBoundary& all, StreamPtr stream) {
    return play_secure(all, std::move(stream), script);
  };
  auto got = ask_http2(
      boundary, {.method = "GET", .target = "/", .authority = "evil.test", .headers = {}}, "");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(421, got->status);
  got = ask_http2(
      boundary,
      {.method = "GET", .target = "/", .authority = "api.test", .headers = {{"host", "evil.test"}}},
      "");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(400, got->status);
  got = ask_http2(boundary,
                  {.method = "TRACE", .target = "/", .authority = "api.test", .headers = {}}, "");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(405, got->status);
  EXPECT_EQ("", script.received);
}

}  // namespace
}  // namespace atl::proxy::http
