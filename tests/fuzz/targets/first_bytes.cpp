// The first bytes of a connection, and DNS messages: what a sandbox sends before anything is known.
#include "egress/classifier.h"
#include "egress/dns_message.h"
#include "egress/host_name.h"
#include "fuzz.h"

namespace atl::fuzz {
namespace {

using egress::AppProtocol;

void classify_all_prefixes(std::string_view input) {
  // Once a protocol is known, more bytes of the same hello do not change its name.
  std::string name;
  for (std::size_t size = 0; size <= std::min<std::size_t>(input.size(), 300); ++size) {
    const auto found = egress::classify(input.substr(0, size));
    if (found && *found && (*found)->hello) {
      CHECK(name.empty() || name == (*found)->hello->server_name);
      name = (*found)->hello->server_name;
    }
  }
}

}  // namespace

void first_bytes(std::string_view input) {
  classify_all_prefixes(input);
  (void)egress::classify(input);
  if (const auto question = egress::read_dns_question(input)) {
    const auto again = egress::read_dns_question(egress::write_dns_question(*question));
    CHECK(again && again->name == question->name && again->type == question->type);
  }
  if (const auto answer = egress::read_dns_answer(input)) {
    const egress::DnsQuestion question{
        .id = answer->id, .name = answer->name, .type = answer->type};
    const auto bytes = egress::write_dns_answer(question, answer->code, answer->records,
                                                egress::kMaxDnsMessageBytes);
    const auto again = egress::read_dns_answer(bytes);
    CHECK(again && (again->truncated || again->records == answer->records));
  }
  if (const auto name = egress::normal_host_name(input)) {
    CHECK(egress::normal_host_name(*name) == name && !egress::Address::parse(*name));
  }
  if (const auto address = egress::Address::parse(input)) {
    CHECK(egress::Address::parse(address->text()) == address);
    (void)egress::classify_address(*address);
  }
  if (const auto network = egress::Network::parse(input)) {
    CHECK(egress::Network::parse(network->text()) == network);
  }
}

Seeds first_bytes_seeds() {
  using namespace std::string_literals;
  return {"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
          "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
          "SSH-2.0-x\r\n",
          "\x16\x03\x01\x00\x41\x01\x00\x00\x3d\x03\x03"s + std::string(32, 'r') +
              "\x00\x00\x02\x13\x01\x01\x00\x00\x12\x00\x00\x00\x0e\x00\x0c\x00\x00\x09"s +
              "a.example",
          "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07"
          "example\x03"
          "com\x00\x00\x01\x00\x01"s,
          "\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00\x01"
          "a\x00\x00\x01\x00\x01"s +
              "\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\x01\x02\x03\x04"s,
          "64:ff9b::10.0.0.1",
          "10.0.0.0/8",
          "Example.COM."};
}

}  // namespace atl::fuzz
