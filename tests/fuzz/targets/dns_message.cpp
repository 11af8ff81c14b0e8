// DNS both ways: a sandbox's question, and an upstream's answer that is taken apart and written
// anew.
#include "egress/dns_message.h"

#include "fuzz.h"

namespace atl::fuzz {
namespace {

using namespace egress;

void question(std::string_view message) {
  const auto read = read_dns_question(message);
  if (!read) {
    return;
  }
  CHECK(read->name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") ==
        std::string::npos);
  const auto again = read_dns_question(write_dns_question(*read));
  CHECK(again && again->name == read->name && again->type == read->type && again->id == read->id);
  const auto refusal = write_dns_answer(*read, DnsCode::kRefused, {}, read->udp_bytes);
  const auto answer = read_dns_answer(refusal);
  CHECK(answer && answer->code == DnsCode::kRefused && answer->records.empty());
}

void answer(std::string_view message) {
  const auto read = read_dns_answer(message);
  if (!read) {
    return;
  }
  CHECK(read->records.size() <= kMaxDnsRecords);
  for (const auto& record : read->records) {
    // What could carry keys or hints is not among what is kept.
    CHECK(record.type != DnsType::kHttps && record.type != DnsType::kSvcb);
  }
  const DnsQuestion asked{.id = read->id, .name = read->name, .type = read->type};
  for (const std::size_t most : {std::size_t{512}, kMaxDnsMessageBytes}) {
    const auto bytes = write_dns_answer(asked, read->code, read->records, most);
    CHECK(bytes.size() <= most);
    const auto again = read_dns_answer(bytes);
    CHECK(again && (again->truncated || again->records == read->records));
  }
}

}  // namespace

void dns_message(std::string_view input) {
  question(input);
  answer(input);
}

Seeds dns_message_seeds() {
  const auto asked = [](DnsType type) {
    return DnsQuestion{.id = 7, .name = "a.example", .type = type};
  };
  const DnsRecord alias{
      .name = "a.example", .type = DnsType::kCname, .ttl_seconds = 5, .target = "b.example"};
  const DnsRecord address{.name = "b.example",
                          .type = DnsType::kA,
                          .ttl_seconds = 5,
                          .address = Address::v4(0x01020304)};
  const DnsRecord text{.name = "a.example", .type = DnsType::kTxt, .texts = {"one", "two"}};
  const DnsRecord service{.name = "a.example",
                          .type = DnsType::kSrv,
                          .target = "b.example",
                          .priority = 1,
                          .weight = 2,
                          .port = 3};
  using namespace std::string_literals;
  return {
      write_dns_question(asked(DnsType::kA)),
      write_dns_question(asked(DnsType::kHttps)),
      write_dns_answer(asked(DnsType::kA), DnsCode::kNoError, {alias, address}, 4096),
      write_dns_answer(asked(DnsType::kTxt), DnsCode::kNoError, {text}, 4096),
      write_dns_answer(asked(DnsType::kSrv), DnsCode::kNoError, {service}, 4096),
      write_dns_answer(asked(DnsType::kA), DnsCode::kNameError, {}, 4096),
      // A name that points at itself.
      "\0\7\x81\x80\0\1\0\1\0\0\0\0\xc0\x0c\0\1\0\1\xc0\x0c\0\1\0\1\0\0\0\5\0\4\1\2\3\4"s,
  };
}

}  // namespace atl::fuzz
