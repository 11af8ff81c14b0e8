#include "egress/host_name.h"

#include <gtest/gtest.h>

#include <string>

namespace atl::egress {
namespace {

TEST(HostName, IsBroughtIntoOneForm) {
  EXPECT_EQ(normal_host_name("Example.COM"), "example.com");
  EXPECT_EQ(normal_host_name("example.com."), "example.com");
  EXPECT_EQ(normal_host_name("xn--bcher-kva.example"), "xn--bcher-kva.example");
  EXPECT_EQ(normal_host_name("localhost"), "localhost");
  EXPECT_EQ(normal_host_name("1a.example"), "1a.example");
}

TEST(HostName, WhatIsNoneIsRefused) {
  const std::string long_label(64, 'a');
  std::string long_name;
  for (int i = 0; i < 64; ++i) {
    long_name += "abc.";
  }
  for (const std::string& text :
       {std::string{""},           std::string{"."},
        std::string{"a..b"},       std::string{".a"},
        std::string{"a.."},        std::string{"-a.b"},
        std::string{"a-.b"},       std::string{"a_b.c"},
        std::string{"a b"},        std::string{"b\xc3\xbc"} + "cher.example",
        std::string{"a\0b", 3},    std::string{"a/b"},
        std::string{"*.a"},        long_label + ".com",
        long_name + "com",         std::string{"1.2.3.4"},
        std::string{"127.1"},      std::string{"2130706433"},
        std::string{"0x7f000001"}, std::string{"0x"},
        std::string{"a.0x1f"},     std::string{"[::1]"},
        std::string{"::1"}}) {
    EXPECT_FALSE(normal_host_name(text)) << text;
  }
  EXPECT_EQ(normal_dns_name("_sip._tcp.Example.com"), "_sip._tcp.example.com");
}

TEST(DomainPattern, AWildcardCoversTheApexAndWhatIsBelowIt) {
  const auto pattern = *DomainPattern::parse("*.Example.com");
  for (const auto* name : {"example.com", "a.example.com", "a.b.example.com"}) {
    EXPECT_TRUE(pattern.matches(name)) << name;
  }
  for (const auto* name : {"evilexample.com", "example.com.evil.com", "com", "example.org"}) {
    EXPECT_FALSE(pattern.matches(name)) << name;
  }
  EXPECT_TRUE(DomainPattern::parse("example.com")->matches("example.com"));
  EXPECT_FALSE(DomainPattern::parse("example.com")->matches("a.example.com"));
  EXPECT_TRUE(DomainPattern::parse("*")->matches("anything.example"));
}

TEST(DomainPattern, ALeadingDotIsForWhatIsBelowAlone) {
  const auto pattern = *DomainPattern::parse(".Example.com");
  EXPECT_EQ(pattern.text(), ".example.com");
  EXPECT_TRUE(pattern.matches("a.example.com"));
  EXPECT_TRUE(pattern.matches("a.b.example.com"));
  EXPECT_FALSE(pattern.matches("example.com"));
  EXPECT_FALSE(pattern.matches("evilexample.com"));
}

TEST(DomainPattern, OneStarAtTheBeginningOnly) {
  for (const auto* text : {"", "*.", "a.*.com", "**.com", "*com", "*.*.com", "https://a.com",
                           "a.com/", "a.com:443", "1.2.3.4", "*.1.2.3.4"}) {
    EXPECT_FALSE(DomainPattern::parse(text)) << text;
  }
}

}  // namespace
}  // namespace atl::egress
