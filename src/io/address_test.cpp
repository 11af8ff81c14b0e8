#include "io/address.h"

#include <gtest/gtest.h>

#include "io/offload.h"
#include "io/reactor.h"

namespace atl::io {
namespace {

TEST(IpAddress, OnlyWhatEverybodyReachesIsPublic) {
  for (const char* text : {"8.8.8.8", "52.216.0.1", "2606:4700::1111", "172.32.0.1", "100.128.0.1",
                           "::ffff:8.8.8.8", "2a00:1450:4001::1", "11.0.0.0", "223.255.255.255"}) {
    const auto address = IpAddress::parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_TRUE(address->is_public()) << text;
  }
  for (const char* text : {"127.0.0.1",
                           "127.255.0.1",
                           "0.0.0.0",
                           "0.1.2.3",
                           "10.1.2.3",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.168.1.1",
                           "169.254.169.254",
                           "100.64.0.1",
                           "100.127.255.255",
                           "100.100.100.200",
                           "224.0.0.1",
                           "255.255.255.255",
                           "198.18.0.1",
                           "192.0.0.192",
                           "::1",
                           "::",
                           "fe80::1",
                           "fc00::1",
                           "fd00:ec2::254",
                           "ff02::1",
                           "::ffff:127.0.0.1",
                           "::ffff:169.254.169.254",
                           "::127.0.0.1",
                           "64:ff9b::7f00:1",
                           "64:ff9b:1::1",
                           "2002:7f00:1::",
                           "2001::1",
                           "2001:db8::1",
                           "fec0::1",
                           "100::1"}) {
    const auto address = IpAddress::parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_FALSE(address->is_public()) << text;
  }
}

TEST(IpAddress, TextAndBack) {
  for (const char* text : {"1.2.3.4", "2606:4700::1111", "::1"}) {
    EXPECT_EQ(IpAddress::parse(text)->text(), text);
  }
  EXPECT_EQ(IpAddress::parse("::ffff:1.2.3.4")->text(), "1.2.3.4");
  for (const char* text : {"", "1.2.3", "0x7f.0.0.1", "2130706433", "host", "1.2.3.4 ", "[::1]"}) {
    EXPECT_FALSE(IpAddress::parse(text)) << text;
  }
}

TEST(IpNetwork, ContainsByPrefix) {
  const auto in = [](const char* network, const char* address) {
    return IpNetwork::parse(network)->contains(*IpAddress::parse(address));
  };
  EXPECT_TRUE(in("10.0.0.0/8", "10.255.1.2"));
  EXPECT_FALSE(in("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(in("172.16.0.0/12", "172.31.0.1"));
  EXPECT_FALSE(in("172.16.0.0/12", "172.32.0.1"));
  EXPECT_TRUE(in("0.0.0.0/0", "1.2.3.4"));
  EXPECT_FALSE(in("0.0.0.0/0", "::1"));
  EXPECT_TRUE(in("127.0.0.1", "127.0.0.1"));
  EXPECT_FALSE(in("127.0.0.1", "127.0.0.2"));
  EXPECT_TRUE(in("fd00::/8", "fd12::1"));
  for (const char* text : {"10.0.0.0/33", "10.0.0.0/", "host/8", "::/129", "10.0.0.0/-1"}) {
    EXPECT_FALSE(IpNetwork::parse(text)) << text;
  }
}

TEST(ResolveHost, LiteralsOddFormsAndNames) {
  Reactor reactor;
  OffloadPool pool{"resolve", 1, 4};
  const auto resolve = [&](std::string host) {
    return reactor.run_until_complete(resolve_host(pool, std::move(host)));
  };
  EXPECT_EQ(resolve("::1").value(), std::vector{*IpAddress::parse("::1")});
  // The system reads these as addresses: what comes out is judged, not how it was written.
  EXPECT_EQ(resolve("0x7f.1").value(), std::vector{*IpAddress::parse("127.0.0.1")});
  EXPECT_EQ(resolve("2130706433").value(), std::vector{*IpAddress::parse("127.0.0.1")});
  for (const IpAddress& each : resolve("localhost").value()) {
    EXPECT_FALSE(each.is_public());
  }
  EXPECT_FALSE(resolve("a b"));
}

}  // namespace
}  // namespace atl::io
