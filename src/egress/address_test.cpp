#include "egress/address.h"

#include <gtest/gtest.h>

namespace atl::egress {
namespace {

Address address(std::string_view text) {
  const auto parsed = Address::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed.value_or(Address{});
}

TEST(AddressText, RoundTrips) {
  for (const auto* text :
       {"1.2.3.4", "255.255.255.255", "0.0.0.0", "2001:db8::1", "::1", "fe80::1"}) {
    EXPECT_EQ(address(text).text(), text);
  }
  EXPECT_EQ(address("::ffff:1.2.3.4"), address("1.2.3.4"));
}

TEST(AddressText, SpellingsThatOnlySomeReadersTakeAreNone) {
  for (const auto* text :
       {"", "1.2.3", "127.1", "0177.0.0.1", "0x7f.0.0.1", "2130706433", "1.2.3.4.", "1.2.3.256",
        "01.2.3.4", " 1.2.3.4", "1.2.3.4 ", "+1.2.3.4", "fe80::1%eth0", "[::1]", "::1::", ":",
        "1:2:3:4:5:6:7:8:9", "::ffff:127.0.0.01"}) {
    EXPECT_FALSE(Address::parse(text)) << text;
  }
  EXPECT_FALSE(Address::parse(std::string_view{"::1\0", 4}));
}

TEST(NetworkText, MustNameItsOwnBase) {
  for (const auto* text : {"10.0.0.0/8", "0.0.0.0/0", "1.2.3.4/32", "2001:db8::/32", "::/0"}) {
    const auto network = Network::parse(text);
    ASSERT_TRUE(network) << text;
    EXPECT_EQ(network->text(), text);
  }
  for (const auto* text : {"10.1.0.0/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8/8",
                           "2001:db8::1/32", "::ffff:10.0.0.0/104", "2001:db8::/129"}) {
    EXPECT_FALSE(Network::parse(text)) << text;
  }
}

TEST(NetworkContains, ToTheBit) {
  const auto network = *Network::parse("172.16.0.0/12");
  EXPECT_TRUE(network.contains(address("172.31.255.255")));
  EXPECT_FALSE(network.contains(address("172.32.0.0")));
  EXPECT_FALSE(network.contains(address("2001:db8::1")));
  EXPECT_TRUE(Network::parse("0.0.0.0/0")->contains(address("8.8.8.8")));
  EXPECT_FALSE(Network::parse("0.0.0.0/0")->contains(address("2001:db8::1")));
}

struct Case {
  const char* text;
  AddressClass address_class;
};

TEST(AddressClass, OfEveryRange) {
  const Case cases[] = {
      {"8.8.8.8", AddressClass::kPublic},
      {"2606:4700::1111", AddressClass::kPublic},
      {"172.32.0.1", AddressClass::kPublic},
      {"0.1.2.3", AddressClass::kUnspecified},
      {"::", AddressClass::kUnspecified},
      {"127.255.0.1", AddressClass::kLoopback},
      {"::1", AddressClass::kLoopback},
      {"169.254.1.1", AddressClass::kLinkLocal},
      {"fe80::1", AddressClass::kLinkLocal},
      {"10.255.255.255", AddressClass::kPrivate},
      {"172.16.0.1", AddressClass::kPrivate},
      {"192.168.0.1", AddressClass::kPrivate},
      {"fd12::1", AddressClass::kPrivate},
      {"fec0::1", AddressClass::kPrivate},
      {"100.64.0.1", AddressClass::kShared},
      {"224.0.0.251", AddressClass::kMulticast},
      {"ff02::fb", AddressClass::kMulticast},
      {"255.255.255.255", AddressClass::kReserved},
      {"192.0.2.1", AddressClass::kReserved},
      {"198.18.0.1", AddressClass::kReserved},
      {"2001:db8::1", AddressClass::kReserved},
      {"4000::1", AddressClass::kReserved},
      {"169.254.169.254", AddressClass::kMetadata},
      {"169.254.170.2", AddressClass::kMetadata},
      {"100.100.100.200", AddressClass::kMetadata},
      {"168.63.129.16", AddressClass::kMetadata},
      {"192.0.0.192", AddressClass::kMetadata},
      {"fd00:ec2::254", AddressClass::kMetadata},
      {"fd20:ce::254", AddressClass::kMetadata},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(classify_address(address(one.text)), one.address_class) << one.text;
  }
}

TEST(AddressClass, AnHiddenAddressIsFoundInEveryDisguise) {
  const Case cases[] = {
      {"::ffff:169.254.169.254", AddressClass::kMetadata},
      {"::169.254.169.254", AddressClass::kMetadata},
      {"64:ff9b::a9fe:a9fe", AddressClass::kMetadata},
      {"64:ff9b:1::a9fe:a9fe", AddressClass::kMetadata},
      {"2002:a9fe:a9fe::1", AddressClass::kMetadata},
      {"2001:0:a9fe:a9fe::", AddressClass::kMetadata},
      {"2001:0:808:808::5601:5601", AddressClass::kMetadata},
      {"2606:4700::5efe:a9fe:a9fe", AddressClass::kMetadata},
      {"2606:4700::5efe:7f00:1", AddressClass::kLoopback},
      {"64:ff9b::7f00:1", AddressClass::kLoopback},
      {"64:ff9b::a00:1", AddressClass::kPrivate},
      {"2002:c0a8:1::", AddressClass::kPrivate},
      {"::ffff:10.0.0.1", AddressClass::kPrivate},
      // Public inside, but still a translator's address, which is not the public internet.
      {"64:ff9b::808:808", AddressClass::kReserved},
      {"2002:808:808::1", AddressClass::kReserved},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(classify_address(address(one.text)), one.address_class) << one.text;
  }
}

TEST(AddressGuard, OpensWhatTheOperatorNamedAndMetadataOnlyByItsExactAddress) {
  const AddressGuard closed{{}, {address("198.41.0.4")}};
  EXPECT_FALSE(closed.refusal(address("8.8.8.8")));
  EXPECT_EQ(closed.refusal(address("10.0.0.1")), "10.0.0.1 is a private address");
  EXPECT_EQ(closed.refusal(address("198.41.0.4")), "198.41.0.4 is an address of the host itself");
  const AddressGuard open{{*Network::parse("10.0.0.0/8"), *Network::parse("169.254.0.0/16")}, {}};
  EXPECT_FALSE(open.refusal(address("10.0.0.1")));
  EXPECT_FALSE(open.refusal(address("169.254.1.1")));
  EXPECT_TRUE(open.refusal(address("169.254.169.254")));
  EXPECT_TRUE(open.refusal(address("192.168.0.1")));
  const AddressGuard exact{{*Network::parse("169.254.169.254")}, {}};
  EXPECT_FALSE(exact.refusal(address("169.254.169.254")));
  EXPECT_TRUE(exact.refusal(address("64:ff9b::a9fe:a9fe")));
}

}  // namespace
}  // namespace atl::egress
