// WebSockets over HTTP/1: against ourselves, against raw bytes, against another implementation.
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/strings.h"
#include "http/test_server.h"

namespace atl::http {
namespace {

using namespace std::chrono_literals;
using Kind = WebSocketMessage::Kind;

constexpr std::string_view kUpgrade =
    "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

Task<> echo(Exchange& exchange) {
  CO_TRY(auto socket, co_await exchange.accept_websocket({.max_message_bytes = 1 << 20}));
  for (;;) {
    CO_TRY(const auto message, co_await socket->receive());
    if (message.kind == Kind::kClose) {
      co_return ok();
    }
    auto sent = message.kind == Kind::kText ? socket->send_text(message.payload)
                                            : socket->send_binary(message.payload);
    CO_TRY_DO(co_await std::move(sent));
  }
}

std::string masked(std::string frame) {
  // First byte and payload given; the mask is zero, so the payload reads as it is.
  const auto size = frame.size() - 1;
  return concat(frame.substr(0, 1), static_cast<char>(0x80 | size), std::string(4, '\0'),
                frame.substr(1));
}

struct Raw {
  // Upgrades, sends frames, and returns all frames that came back until the server closed.
  static Task<std::string> run(TestServer& server, std::string frames) {
    CO_TRY(auto stream, co_await connect_raw(server));
    CO_TRY_DO(co_await stream->write(kUpgrade));
    CO_TRY(const auto head, co_await read_until(*stream, "\r\n\r\n"));
    EXPECT_TRUE(head.starts_with("HTTP/1.1 101 ")) << head;
    EXPECT_NE(std::string::npos,
              head.find("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    CO_TRY_DO(co_await stream->write(frames));
    co_return co_await read_to_end(*stream);
  }
};

int close_code(const std::string& frames) {
  if (frames.size() < 4 || frames[0] != '\x88') {
    return -1;
  }
  return static_cast<unsigned char>(frames[2]) << 8 | static_cast<unsigned char>(frames[3]);
}

TEST(WebSocketServer, HostileFramesAreClosedWithTheRightCode) {
  struct Case {
    const char* what;
    std::string frames;
    int code;
  };
  using namespace std::string_literals;
  const Case cases[] = {
      {"unmasked", "\x81\x02hi"s, 1002},
      {"reserved bit", masked("\xc1hi"), 1002},
      {"unknown opcode", masked("\x83hi"), 1002},
      {"unknown control opcode", masked("\x8bhi"), 1002},
      {"fragmented ping", masked("\x09hi"), 1002},
      {"continuation of nothing", masked("\x80hi"), 1002},
      {"text inside a message", masked("\x01hi") + masked("\x81hi"), 1002},
      {"bad UTF-8", masked("\x81\xff\xfe"), 1007},
      {"close of one byte", masked("\x88x"), 1002},
      {"reserved close code", masked("\x88\x03\xed"), 1002},
      {"too big", "\x82\xff\0\0\0\0\x10\0\0\0\0\0\0\0"s, 1009},
      {"length with the top bit", "\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0"s, 1009},
      {"long ping", "\x89\xfe\x00\x7e\0\0\0\0"s, 1002},
      {"wasteful length", "\x82\xfe\x00\x05\0\0\0\0hello"s, 1002},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.what);
    TestServer server{echo};
    const auto answer = server.run(Raw::run(server, test.frames));
    ASSERT_TRUE(answer);
    EXPECT_EQ(test.code, close_code(*answer));
  }
}

TEST(WebSocketServer, ACloseIsAnsweredWithItsCode) {
  TestServer server{echo};
  const auto answer = server.run(Raw::run(server, masked("\x88\x0f\xa0"
                                                         "bye")));
  ASSERT_TRUE(answer);
  EXPECT_EQ(4000, close_code(*answer));
}

TEST(WebSocketServer, APingIsAnsweredWithItsPayload) {
  TestServer server{echo};
  const auto answer = server.run(Raw::run(server, masked("\x89yo") + masked("\x88\x03\xe8")));
  EXPECT_EQ("\x8a\x02yo\x88\x02\x03\xe8", answer);
}

TEST(WebSocketServer, BadHandshakesGet400) {
  const auto without = [](std::string_view from, std::string_view to) {
    std::string text{kUpgrade};
    text.replace(text.find(from), from.size(), to);
    text.insert(text.size() - 2, "X-Last: 1\r\n");
    return text;
  };
  const std::string requests[] = {
      without("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ"),
      without("dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ="),
      without("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""),
      without("Version: 13", "Version: 8"),
      without("Upgrade: WebSocket\r\n", ""),
      without("Upgrade: WebSocket", "Upgrade: h2c"),
      without("keep-alive, Upgrade", "keep-alive"),
      without("GET", "POST"),
      without("X", "X"),
  };
  for (std::size_t i = 0; i + 1 < std::size(requests); ++i) {
    TestServer server{echo, {.idle_timeout = 50ms}};
    const auto answer = server.run(exchange_raw(server, requests[i]));
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->starts_with("HTTP/1.1 400 ")) << i << " " << *answer;
  }
}

TEST(WebSocketServer, AnUpgradeMayArriveByteByByteAndWithFramesBehindIt) {
  struct Steps {
    static Task<std::string> run(TestServer& server) {
      CO_TRY(auto stream, co_await connect_raw(server));
      const std::string all = concat(kUpgrade,
                                     masked("\x01"
                                            "ab"),
                                     masked("\x80"
                                            "cd"),
                                     masked("\x88\x03\xe8"));
      for (const char& c : all) {
        CO_TRY_DO(co_await stream->write({&c, 1}));
        CO_TRY_DO(co_await sleep_for(Duration::zero()));
      }
      CO_TRY_DO(co_await read_until(*stream, "\r\n\r\n"));
      co_return co_await read_to_end(*stream);
    }
    static Task<std::string> at_once(TestServer& server) {
      CO_TRY(auto stream, co_await connect_raw(server));
      CO_TRY_DO(co_await stream->write(concat(kUpgrade,
                                              masked("\x81"
                                                     "abcd"),
                                              masked("\x88\x03\xe8"))));
      CO_TRY_DO(co_await read_until(*stream, "\r\n\r\n"));
      co_return co_await read_to_end(*stream);
    }
  };
  {
    TestServer server{echo};
    EXPECT_EQ(
        "\x81\x04"
        "abcd\x88\x02\x03\xe8",
        server.run(Steps::run(server)));
  }
  TestServer server{echo};
  EXPECT_EQ(
      "\x81\x04"
      "abcd\x88\x02\x03\xe8",
      server.run(Steps::at_once(server)));
}

TEST(WebSocketClient, TalksToTheServer) {
  TestServer server{echo};
  struct Steps {
    static Task<> run(TestServer& server) {
      Client client{server.reactor(), server.url()};
      CO_TRY(auto socket, co_await client.connect_websocket("/ws", {{"x-a", "b"}}, {}));
      const std::string large(1 << 20, 'x');
      CO_TRY_DO(co_await socket->send_text("hello"));
      CO_TRY_DO(co_await socket->send_binary(large));
      CO_TRY(const auto first, co_await socket->receive());
      CO_TRY(const auto second, co_await socket->receive());
      EXPECT_EQ("hello", first.payload);
      EXPECT_EQ(Kind::kText, first.kind);
      EXPECT_EQ(large, second.payload);
      EXPECT_EQ(Kind::kBinary, second.kind);
      CO_TRY_DO(co_await socket->close(1000, "done"));
      EXPECT_FALSE(co_await socket->receive());
      co_return ok();
    }
  };
  const auto done = server.run(Steps::run(server));
  EXPECT_TRUE(done) << done.error().message;
}

TEST(WebSocketClient, ARefusalIsAnErrorWithTheAnswer) {
  TestServer server{
      [](Exchange& exchange) { return exchange.respond({404, {}, "no such shell"}); }};
  struct Steps {
    static Task<> run(TestServer& server) {
      Client client{server.reactor(), server.url()};
      CO_TRY_DO(co_await client.connect_websocket("/ws", {}, {}));
      co_return ok();
    }
  };
  const auto done = server.run(Steps::run(server));
  ASSERT_FALSE(done);
  EXPECT_EQ(Code::kNotFound, done.error().code);
  EXPECT_EQ("no such shell", done.error().message);
}

constexpr int kMessages = 2000;

Task<> send_numbered(Exchange& exchange, int& sent) {
  CO_TRY(auto socket, co_await exchange.accept_websocket({}));
  const std::string padding(16 * 1024, '.');
  for (sent = 0; sent < kMessages; ++sent) {
    CO_TRY_DO(co_await socket->send_text(concat(sent, " ", padding)));
  }
  co_return co_await socket->close(1000, "");
}

TEST(WebSocketServer, ASlowReaderSlowsTheWriterAndLosesNothing) {
  int sent = 0;
  TestServer server{[&sent](Exchange& exchange) { return send_numbered(exchange, sent); }};
  struct Steps {
    static Task<int> run(TestServer& server, const int& sent) {
      Client client{server.reactor(), server.url()};
      CO_TRY(auto socket, co_await client.connect_websocket("/ws", {}, {}));
      for (int before = -1; before != sent;) {
        before = sent;
        CO_TRY_DO(co_await sleep_for(50ms));
      }
      EXPECT_LT(sent, kMessages);
      for (int i = 0;; ++i) {
        CO_TRY(const auto message, co_await socket->receive());
        if (message.kind == Kind::kClose) {
          co_return i;
        }
        EXPECT_TRUE(message.payload.starts_with(concat(i, " ")));
      }
    }
  };
  EXPECT_EQ(kMessages, server.run(Steps::run(server, sent)));
}

Task<> wait_for_close(Exchange& exchange, WebSocketMessage& last) {
  CO_TRY(auto socket, co_await exchange.accept_websocket({.ping_interval = 20ms}));
  CO_TRY(last, co_await socket->receive());
  co_return ok();
}

TEST(WebSocketServer, ASilentPeerIsGivenUpAndAPingedOneIsNot) {
  WebSocketMessage last;
  TestServer server{[&last](Exchange& exchange) { return wait_for_close(exchange, last); }};
  const auto answer = server.run(Raw::run(server, ""));
  ASSERT_TRUE(answer);
  EXPECT_EQ(std::string("\x89\x00\x89\x00", 4), *answer);  // two pings, then nothing
  EXPECT_EQ(Kind::kClose, last.kind);
  EXPECT_EQ(1006, last.close_code);

  struct Steps {
    static Task<> run(TestServer& server, const WebSocketMessage& last) {
      Client client{server.reactor(), server.url()};
      CO_TRY(auto socket, co_await client.connect_websocket("/ws", {}, {}));
      const auto received = co_await with_deadline(300ms, socket->receive());
      EXPECT_FALSE(received);
      EXPECT_EQ(Code::kDeadlineExceeded, received.error().code);
      EXPECT_EQ(1005, last.close_code);  // still open
      co_return ok();
    }
  };
  last = {};
  TestServer again{[&last](Exchange& exchange) { return wait_for_close(exchange, last); }};
  EXPECT_TRUE(again.run(Steps::run(again, last)));
}

TEST(WebSocketServer, DrainingClosesWith1001) {
  TestServer server{echo};
  struct Steps {
    static Task<WebSocketMessage> run(TestServer& server) {
      Client client{server.reactor(), server.url()};
      CO_TRY(auto socket, co_await client.connect_websocket("/ws", {}, {}));
      CO_TRY_DO(co_await socket->send_text("x"));
      CO_TRY_DO(co_await socket->receive());
      server.server().drain();
      co_return co_await socket->receive();
    }
  };
  const auto last = server.run(Steps::run(server));
  ASSERT_TRUE(last);
  EXPECT_EQ(1001, last->close_code);
}

TEST(WebSocketServer, AHandlerThatFailsCloses1011) {
  TestServer server{[](Exchange& exchange) -> Task<> {
    CO_TRY_DO(co_await exchange.accept_websocket({}));
    co_return fail(Code::kInternal, "oops");
  }};
  const auto answer = server.run(Raw::run(server, ""));
  ASSERT_TRUE(answer);
  EXPECT_EQ(1011, close_code(*answer));
  EXPECT_EQ(0, server.metrics().gauge("atoll_http_websockets_open", "").value());
}

constexpr std::string_view kPythonClient = R"py(
import asyncio, websockets
async def main():
    async with websockets.connect("ws://127.0.0.1:PORT/ws", max_size=None) as socket:
        for message in ["hi", b"\x00\xff", "x" * 200000, "\u00e9" * 1000, ""]:
            await socket.send(message)
            assert await socket.recv() == message
        await socket.send(["frag", "ment", "ed"])
        assert await socket.recv() == "fragmented"
        await asyncio.wait_for(await socket.ping(), 30)
    print("closed", socket.close_code)
asyncio.run(main())
)py";

TEST(WebSocketServer, PythonsClientAgrees) {
  if (::system("/usr/bin/python3 -c 'import websockets' 2>/dev/null") != 0) {
    GTEST_SKIP() << "python3-websockets is not installed";
  }
  TestServer server{echo};
  io::OffloadPool pool{"python", 1, 4};
  std::string script{kPythonClient};
  script.replace(script.find("PORT"), 4, concat(server.server().port()));
  EXPECT_EQ(
      "closed 1000\n",
      server.run(run_shell(pool, concat("/usr/bin/python3 - 2>&1 <<'END'\n", script, "\nEND\n"))));
}

}  // namespace
}  // namespace atl::http
