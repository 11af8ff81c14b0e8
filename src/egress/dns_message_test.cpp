#include "egress/dns_message.h"

#include <gtest/gtest.h>

#include <string>

namespace atl::egress {
namespace {

using namespace std::string_literals;

const std::string kQuestionTail = "\7example\3com\0\0\1\0\1"s;
const std::string kPlain = "\x12\x34\1\0\0\1\0\0\0\0\0\0"s + kQuestionTail;

TEST(DnsQuestion, IsRead) {
  const auto question = read_dns_question(kPlain);
  ASSERT_TRUE(question) << question.error().message;
  EXPECT_EQ(question->id, 0x1234);
  EXPECT_EQ(question->name, "example.com");
  EXPECT_EQ(question->type, DnsType::kA);
  EXPECT_EQ(question->udp_bytes, 512);
}

TEST(DnsQuestion, AsWrittenByUs) {
  const DnsQuestion asked{.id = 7, .name = "a.b.example", .type = DnsType::kAaaa};
  const auto question = read_dns_question(write_dns_question(asked));
  ASSERT_TRUE(question);
  EXPECT_EQ(question->name, "a.b.example");
  EXPECT_EQ(question->type, DnsType::kAaaa);
  EXPECT_TRUE(question->has_opt);
  EXPECT_EQ(question->udp_bytes, 1232);
}

TEST(DnsQuestion, WhatIsNotOnePlainQuestionIsRefused) {
  const auto header = [](const char* tail, std::size_t size) {
    return "\x12\x34"s + std::string{tail, size};
  };
  for (const auto& message :
       {""s, kPlain.substr(0, kPlain.size() - 1), kPlain + "x",
        header("\x81\0\0\1\0\0\0\0\0\0", 10) + kQuestionTail,  // an answer
        header("\x29\0\0\1\0\0\0\0\0\0", 10) + kQuestionTail,  // an update
        header("\1\0\0\2\0\0\0\0\0\0", 10) + kQuestionTail + kQuestionTail,
        header("\1\0\0\1\0\1\0\0\0\0", 10) + kQuestionTail,
        header("\1\0\0\1\0\0\0\0\0\0", 10) + "\xc0\x0c\0\1\0\1"s,  // compressed
        header("\1\0\0\1\0\0\0\0\0\0", 10) + "\x40"
                                             "example\0\0\1\0\1"s,  // reserved label
        header("\1\0\0\1\0\0\0\0\0\0", 10) + "\3a\0b\0\0\1\0\1"s,
        header("\1\0\0\1\0\0\0\0\0\0", 10) + "\3a.b\0\0\1\0\1"s,
        header("\1\0\0\1\0\0\0\0\0\0", 10) + "\7example\3com\0\0\1\0\3"s}) {
    EXPECT_FALSE(read_dns_question(message)) << message.size();
  }
}

TEST(DnsAnswer, RoundTripsEveryTypeThatIsPassedOn) {
  const DnsQuestion question{.id = 9, .name = "a.example", .udp_bytes = 1232, .has_opt = true};
  const std::vector<DnsRecord> records{
      {.name = "a.example", .type = DnsType::kCname, .ttl_seconds = 5, .target = "b.example"},
      {.name = "b.example", .ttl_seconds = 60, .address = *Address::parse("1.2.3.4")},
      {.name = "b.example", .type = DnsType::kAaaa, .address = *Address::parse("2001:db8::1")},
      {.name = "b.example", .type = DnsType::kMx, .target = "m.example", .priority = 10},
      {.name = "b.example",
       .type = DnsType::kSrv,
       .target = "s.example",
       .priority = 1,
       .weight = 2,
       .port = 443},
      {.name = "b.example", .type = DnsType::kTxt, .texts = {"v=1", ""}},
  };
  const auto answer = read_dns_answer(write_dns_answer(question, DnsCode::kNoError, records, 4096));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->id, 9);
  EXPECT_EQ(answer->name, "a.example");
  EXPECT_EQ(answer->records, records);
  EXPECT_FALSE(answer->truncated);
}

TEST(DnsAnswer, ForeignRecordsAreDropped) {
  const DnsQuestion question{.id = 9, .name = "a.example"};
  const auto answer = read_dns_answer(
      write_dns_answer(question, DnsCode::kNoError,
                       {{.name = "bank.example", .address = *Address::parse("6.6.6.6")},
                        {.name = "a.example", .type = DnsType::kHttps, .target = "x.example"},
                        {.name = "a.example", .address = *Address::parse("1.2.3.4")}},
                       4096));
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->records.size(), 1U);
  EXPECT_EQ(answer->records[0].address.text(), "1.2.3.4");
}

TEST(DnsAnswer, IsCutToItsSizeAndSaysSo) {
  const DnsQuestion question{.id = 9, .name = "a.example"};
  const std::vector<DnsRecord> records(
      100, DnsRecord{.name = "a.example", .address = *Address::parse("1.2.3.4")});
  const auto bytes = write_dns_answer(question, DnsCode::kNoError, records, 512);
  EXPECT_LE(bytes.size(), 512U);
  EXPECT_TRUE(read_dns_answer(bytes)->truncated);
}

TEST(DnsAnswer, NoPointerMakesALoop) {
  const auto header = "\0\1\x81\x80\0\1\0\1\0\0\0\0"s + kQuestionTail;
  const auto record_tail = "\0\1\0\1\0\0\0\1\0\4\1\2\3\4"s;
  EXPECT_TRUE(read_dns_answer(header + "\xc0\x0c"s + record_tail));
  const auto itself = static_cast<char>(header.size());
  EXPECT_FALSE(read_dns_answer(header + "\xc0"s + itself + record_tail));
  EXPECT_FALSE(read_dns_answer(header + "\xc0\xff"s + record_tail));
  EXPECT_FALSE(read_dns_answer(header + "\xc0"s));
}

}  // namespace
}  // namespace atl::egress
