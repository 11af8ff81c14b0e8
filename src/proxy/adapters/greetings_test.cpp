// What the adapters read and write, as tables: no sockets.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "proxy/adapters/mqtt_connect.h"
#include "proxy/adapters/postgres_login.h"
#include "proxy/adapters/postgres_messages.h"
#include "proxy/adapters/redis_commands.h"
#include "proxy/adapters/socks5_server.h"

namespace atl::proxy::adapters {
namespace {

using namespace std::string_literals;

std::string redis(std::string_view input, Code* code = nullptr) {
  std::string whole;
  RedisCommands at_once{"app", "real"};
  const auto fed = at_once.feed(input, whole);
  std::string pieces;
  RedisCommands one_by_one{"app", "real"};
  Result<> outcome;
  for (std::size_t i = 0; i < input.size() && outcome; ++i) {
    outcome = one_by_one.feed(input.substr(i, 1), pieces);
  }
  EXPECT_EQ(whole, pieces);
  EXPECT_EQ(fed.has_value(), outcome.has_value());
  if (code != nullptr) {
    *code = fed ? Code::kUnknown : fed.error().code;
  } else {
    EXPECT_TRUE(fed) << input;
  }
  return whole;
}

constexpr std::string_view kLogin = "*3\r\n$4\r\nAUTH\r\n$3\r\napp\r\n$4\r\nreal\r\n";

TEST(RedisCommands, ReplacesWhatCarriesAPassword) {
  EXPECT_EQ(redis("*2\r\n$4\r\nAUTH\r\n$4\r\nfake\r\n"), kLogin);
  EXPECT_EQ(redis("*3\r\n$4\r\nauth\r\n$1\r\nu\r\n$1\r\np\r\n"), kLogin);
  EXPECT_EQ(redis("AUTH fake\r\n"), kLogin);
  EXPECT_EQ(redis("*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\np\r\n"),
            "*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$3\r\napp\r\n$4\r\nreal\r\n");
  EXPECT_EQ(redis("*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"), "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n");
  // A client may be called AUTH.
  const std::string_view named = "*4\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$7\r\nSETNAME\r\n$4\r\nAUTH\r\n";
  EXPECT_EQ(redis(named), named);
}

TEST(RedisCommands, PassesEverythingElse) {
  const std::string set = "*3\r\n$3\r\nSET\r\n$4\r\nAUTH\r\n$6\r\n*1\r\nx\n\r\n";
  const std::string all = concat("PING\r\n", set, "*1\r\n$4\r\nQUIT\r\n");
  EXPECT_EQ(redis(all), all);
  EXPECT_EQ(redis(concat(set, "*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n", set)), concat(set, kLogin, set));
}

TEST(RedisCommands, RefusesWhatWouldShowThePassword) {
  for (const auto* input :
       {"*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$11\r\nrequirepass\r\n", "config get *\r\n",
        "*3\r\n$3\r\nACL\r\n$7\r\nGETUSER\r\n$3\r\napp\r\n", "*1\r\n$3\r\nACL\r\n"}) {
    const std::string out = redis(input);
    EXPECT_TRUE(out.contains("is-not-allowed")) << input;
    EXPECT_FALSE(out.contains("requirepass"));
  }
  const std::string_view harmless = "*2\r\n$3\r\nACL\r\n$6\r\nWHOAMI\r\n";
  EXPECT_EQ(redis(harmless), harmless);
}

TEST(RedisCommands, RefusesWhatIsNoRedis) {
  for (const std::string& input :
       {"*x\r\n"s, "*1\r\n+OK\r\n"s, "*1\n$4\nPING\n"s, "*1\r\n$-1\r\n"s, "*9999999\r\n"s,
        "*2\r\n$4\r\nAUTH\r\n$99999\r\n"s, "\"AUTH\" x\r\n"s, "AUTH \"a b\"\r\n"s,
        "*1\r\n$4\r\nPINGxx"s, std::string(70'000, 'x')}) {
    Code code = Code::kUnknown;
    (void)redis(input, &code);
    EXPECT_EQ(code, Code::kInvalidArgument) << input.substr(0, 40);
  }
}

TEST(MqttConnect, ReplacesNameAndPassword) {
  const auto rewrite = [](std::string_view input) {
    return rewrite_mqtt_connect(input, "app", "real");
  };
  // 3.1.1, clean session, client id "c", without and with credentials.
  const std::string expected =
      "\x10\x18\x00\x04MQTT\x04\xC2\x00\x3C\x00\x01"s + "c\x00\x03"s + "app\x00\x04"s + "real";
  const std::string bare = "\x10\x0D\x00\x04MQTT\x04\x02\x00\x3C\x00\x01"s + "c";
  const auto first = rewrite(bare + "rest");
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((*first)->packet, expected);
  EXPECT_EQ((*first)->consumed, bare.size());
  const auto again =
      rewrite("\x10\x13\x00\x04MQTT\x04\xC2\x00\x3C\x00\x01"s + "c\x00\x01"s + "u\x00\x01"s + "p");
  ASSERT_TRUE(again && *again);
  EXPECT_EQ((*again)->packet, expected);
  for (std::size_t size = 0; size < bare.size(); ++size) {
    const auto part = rewrite(std::string_view{bare}.substr(0, size));
    ASSERT_TRUE(part);
    EXPECT_FALSE(*part) << size;
  }
  // 5, with a property and a will.
  const auto five = rewrite("\x10\x20\x00\x04MQTT\x05\x06\x00\x3C\x05\x11\x00\x00\x00\x0A"s +
                            "\x00\x01"s + "c\x00\x00\x01t\x00\x07payload"s);
  ASSERT_TRUE(five && *five) << five.error().message;
  EXPECT_EQ((*five)->level, 5);
  EXPECT_TRUE((*five)->packet.ends_with("\x00\x07payload\x00\x03"s + "app\x00\x04real"s));
}

TEST(MqttConnect, RefusesWhatIsNone) {
  const auto bad = [](std::string_view input) {
    const auto read = rewrite_mqtt_connect(input, "app", "real");
    return !read && read.error().code == Code::kInvalidArgument;
  };
  EXPECT_TRUE(bad("\x30\x05hello"));
  EXPECT_TRUE(bad("\x10\xFF\xFF\xFF\xFF\x01"));
  EXPECT_TRUE(bad("\x10\x0D\x00\x04MQTX\x04\x02\x00\x3C\x00\x01"s + "c"));
  EXPECT_TRUE(bad("\x10\x0D\x00\x04MQTT\x04\x03\x00\x3C\x00\x01"s + "c")) << "reserved flag";
  EXPECT_TRUE(bad("\x10\x0E\x00\x04MQTT\x04\x02\x00\x3C\x00\x01"s + "cx")) << "left over";
  // An authentication method of its own.
  EXPECT_TRUE(bad("\x10\x12\x00\x04MQTT\x05\x02\x00\x3C\x04\x15\x00\x01"s + "X\x00\x01"s + "c"));
}

TEST(Socks5Server, ReadsGreetingLoginAndRequest) {
  const auto greeting = read_socks5_greeting("\x05\x02\x00\x02rest"s);
  ASSERT_TRUE(greeting && *greeting);
  EXPECT_EQ((*greeting)->consumed, 4U);
  EXPECT_TRUE((*greeting)->with_login && (*greeting)->without_login);
  EXPECT_FALSE(*read_socks5_greeting("\x05\x02\x00"s));
  EXPECT_FALSE(read_socks5_greeting("\x04\x01"s));
  EXPECT_FALSE(read_socks5_greeting("\x05\x00"s));
  EXPECT_EQ(**read_socks5_login("\x01\x01u\x02pprest"s), 6U);
  EXPECT_FALSE(*read_socks5_login("\x01\x01u\x02p"s));
  const auto request = read_socks5_request("\x05\x01\x00\x03\x07"s + "a.b.com\x01\xBB"s);
  ASSERT_TRUE(request && *request);
  EXPECT_EQ((*request)->text, "connect a.b.com:443");
  EXPECT_EQ((**read_socks5_request("\x05\x01\x00\x01\x7F\x00\x00\x01\x00\x50"s)).text,
            "connect 127.0.0.1:80");
  EXPECT_FALSE(read_socks5_request("\x05\x09\x00\x01\x7F\x00\x00\x01\x00\x50"s));
  EXPECT_FALSE(socks5_login("", "x"));
  EXPECT_EQ(*socks5_login("ab", "c"), "\x01\x02"s + "ab\x01"s + "c");
}

TEST(PostgresMessages, ReadsAndWritesStartup) {
  PostgresStartup startup{.version = 196608};
  startup.set("user", "me");
  startup.set("database", "shop");
  const std::string bytes = encode(startup);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto part = read_postgres_startup(std::string_view{bytes}.substr(0, size));
    ASSERT_TRUE(part);
    EXPECT_FALSE(*part);
  }
  const auto read = read_postgres_startup(bytes + "rest");
  ASSERT_TRUE(read && *read);
  EXPECT_EQ((*read)->consumed, bytes.size());
  EXPECT_EQ((*read)->parameters, startup.parameters);
  EXPECT_EQ((**read_postgres_startup("\x00\x00\x00\x08\x04\xd2\x16\x2f"s)).kind,
            PostgresStartup::Kind::kTls);
  EXPECT_FALSE(read_postgres_startup("\x00\x00\x00\x09\x00\x03\x00\x00u"s));
  EXPECT_FALSE(read_postgres_startup("\x00\x00\x00\x08\x00\x02\x00\x00"s));
  EXPECT_FALSE(read_postgres_startup("\xFF\x00\x00\x08\x00\x03\x00\x00"s));
}

TEST(PostgresLogin, DoesMd5AndNoCleartextWithoutTls) {
  PostgresLogin login{"me", "secret", false, "nonce"};
  const auto answer = login.answer(postgres_u32(5) + "salt");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->size(), 5U + 35U + 1U);
  EXPECT_EQ(answer->substr(5, 3), "md5");
  EXPECT_FALSE(login.done());
  EXPECT_TRUE(login.answer(postgres_u32(0)));
  EXPECT_TRUE(login.done());
  PostgresLogin plain{"me", "secret", false, "nonce"};
  EXPECT_FALSE(plain.answer(postgres_u32(3)));
  PostgresLogin encrypted{"me", "secret", true, "nonce"};
  EXPECT_EQ(*encrypted.answer(postgres_u32(3)), postgres_message('p', "secret\0"s));
}

// The example of RFC 7677, but with an empty name, as PostgreSQL has it: checked against itself.
TEST(PostgresLogin, DoesScramAndVerifiesTheServer) {
  const std::string nonce = "rOprNGfwEbeRWgbNEkqO";
  PostgresLogin login{"user", "pencil", false, nonce};
  const auto first = login.answer(postgres_u32(10) + "SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"s);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->ends_with(concat("n,,n=,r=", nonce)));
  const auto proof = login.answer(
      postgres_u32(11) +
      concat("r=", nonce, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
  ASSERT_TRUE(proof) << proof.error().message;
  EXPECT_TRUE(proof->contains(",p="));
  EXPECT_FALSE(login.answer(postgres_u32(0))) << "before the server has proved itself";
  EXPECT_FALSE(login.answer(postgres_u32(12) + "v=AAAA"));
  EXPECT_FALSE(login.done());
  PostgresLogin other{"user", "pencil", false, nonce};
  ASSERT_TRUE(other.answer(postgres_u32(10) + "SCRAM-SHA-256\0\0"s));
  EXPECT_FALSE(other.answer(postgres_u32(11) + "r=somebody-else,s=W22Z,i=4096"));
  PostgresLogin slow{"user", "pencil", false, nonce};
  ASSERT_TRUE(slow.answer(postgres_u32(10) + "SCRAM-SHA-256\0\0"s));
  EXPECT_FALSE(slow.answer(postgres_u32(11) + concat("r=", nonce, "x,s=W22Z,i=99999999")));
}

}  // namespace
}  // namespace atl::proxy::adapters
