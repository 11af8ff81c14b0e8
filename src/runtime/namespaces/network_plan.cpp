#include "runtime/namespaces/network_plan.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/strings.h"
#include "runtime/namespaces/cell_network.h"

namespace atl::runtime::namespaces {
namespace {

constexpr std::uint32_t kLoopback = 1;  // the index of lo, which every namespace is born with
constexpr const char* kTable = "atoll";
constexpr const char* kChain = "inbound";
constexpr std::uint32_t kLoopbackNetwork = 127;
// Offsets in the headers.
constexpr std::uint32_t kDestination4 = 16;
constexpr std::uint32_t kDestination6 = 24;
constexpr std::uint32_t kDestinationPort = 2;

std::vector<std::uint8_t> address_bytes(int family, const char* text) {
  std::vector<std::uint8_t> bytes(family == AF_INET ? 4 : 16);
  CHECK(::inet_pton(family, text, bytes.data()) == 1);
  return bytes;
}

template <class T>
std::span<const std::uint8_t> bytes_of(const T& value) {
  return {reinterpret_cast<const std::uint8_t*>(&value), sizeof value};
}

// Messages one after the other.
class Messages {
 public:
  // `write` makes one message in a buffer and returns its header.
  template <class Write>
  void add(Write write) {
    alignas(nlmsghdr) std::array<char, 4096> buffer{};
    nlmsghdr* header = write(buffer.data());
    header->nlmsg_seq = ++sequence_;
    last_ = bytes_.size();
    bytes_.append(buffer.data(), NLMSG_ALIGN(header->nlmsg_len));
  }
  // What fails is answered anyway; the answer to the last says that nothing did.
  void ask_for_answer() {
    nlmsghdr header{};
    std::memcpy(&header, bytes_.data() + last_, sizeof header);
    header.nlmsg_flags |= NLM_F_ACK;
    std::memcpy(bytes_.data() + last_, &header, sizeof header);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
  std::size_t last_ = 0;
  std::uint32_t sequence_ = 0;
};

nlmsghdr* begin_route_message(char* buffer, std::uint16_t type) {
  nlmsghdr* header = mnl_nlmsg_put_header(buffer);
  header->nlmsg_type = type;
  header->nlmsg_flags = NLM_F_REQUEST;
  if (type != RTM_SETLINK) {
    header->nlmsg_flags |= NLM_F_CREATE | NLM_F_EXCL;
  }
  return header;
}

void put_bytes(nlmsghdr* header, std::uint16_t type, std::span<const std::uint8_t> bytes) {
  mnl_attr_put(header, type, bytes.size(), bytes.data());
}

void add_link(Messages& messages) {
  messages.add([](char* buffer) {
    nlmsghdr* header = begin_route_message(buffer, RTM_SETLINK);
    auto* link = static_cast<ifinfomsg*>(mnl_nlmsg_put_extra_header(header, sizeof(ifinfomsg)));
    link->ifi_family = AF_UNSPEC;
    link->ifi_index = kLoopback;
    link->ifi_flags = IFF_UP;
    link->ifi_change = IFF_UP;
    return header;
  });
}

void add_address(Messages& messages, int family, const char* text) {
  messages.add([&](char* buffer) {
    const auto address = address_bytes(family, text);
    nlmsghdr* header = begin_route_message(buffer, RTM_NEWADDR);
    auto* body = static_cast<ifaddrmsg*>(mnl_nlmsg_put_extra_header(header, sizeof(ifaddrmsg)));
    body->ifa_family = static_cast<std::uint8_t>(family);
    body->ifa_prefixlen = static_cast<std::uint8_t>(address.size() * 8);
    body->ifa_flags = family == AF_INET6 ? IFA_F_NODAD : 0;
    body->ifa_scope = RT_SCOPE_UNIVERSE;
    body->ifa_index = kLoopback;
    put_bytes(header, IFA_LOCAL, address);
    put_bytes(header, IFA_ADDRESS, address);
    return header;
  });
}

// Everything there is, is here.
void add_route(Messages& messages, int family, const char* source) {
  messages.add([&](char* buffer) {
    nlmsghdr* header = begin_route_message(buffer, RTM_NEWROUTE);
    auto* route = static_cast<rtmsg*>(mnl_nlmsg_put_extra_header(header, sizeof(rtmsg)));
    route->rtm_family = static_cast<std::uint8_t>(family);
    route->rtm_table = RT_TABLE_LOCAL;
    route->rtm_protocol = RTPROT_BOOT;
    route->rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE;
    route->rtm_type = RTN_LOCAL;
    mnl_attr_put_u32(header, RTA_OIF, kLoopback);
    put_bytes(header, RTA_PREFSRC, address_bytes(family, source));
    return header;
  });
}

std::string make_routing(bool ipv6) {
  Messages messages;
  add_link(messages);
  add_address(messages, AF_INET, kCellAddress4);
  add_route(messages, AF_INET, kCellAddress4);
  if (ipv6) {
    add_address(messages, AF_INET6, kCellAddress6);
    add_route(messages, AF_INET6, kCellAddress6);
  }
  messages.ask_for_answer();
  return messages.take();
}

// One rule: conditions, then what happens. Of no more memory than the library has, the process ends
// at its start.
class Rule {
 public:
  explicit Rule(std::uint32_t family)
      : family_(family), rule_(nftnl_rule_alloc(), &nftnl_rule_free) {
    CHECK(rule_ != nullptr);
    nftnl_rule_set_u32(rule_.get(), NFTNL_RULE_FAMILY, family);
    nftnl_rule_set_str(rule_.get(), NFTNL_RULE_TABLE, kTable);
    nftnl_rule_set_str(rule_.get(), NFTNL_RULE_CHAIN, kChain);
  }

  // NFT_META_NFPROTO or NFT_META_L4PROTO.
  Rule& is(std::uint32_t key, std::uint8_t value) {
    nftnl_expr* meta = add("meta");
    nftnl_expr_set_u32(meta, NFTNL_EXPR_META_KEY, key);
    nftnl_expr_set_u32(meta, NFTNL_EXPR_META_DREG, NFT_REG_1);
    return compare(bytes_of(value));
  }
  Rule& header_is(std::uint32_t base, std::uint32_t offset, std::span<const std::uint8_t> bytes) {
    nftnl_expr* payload = add("payload");
    nftnl_expr_set_u32(payload, NFTNL_EXPR_PAYLOAD_BASE, base);
    nftnl_expr_set_u32(payload, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
    nftnl_expr_set_u32(payload, NFTNL_EXPR_PAYLOAD_LEN, static_cast<std::uint32_t>(bytes.size()));
    nftnl_expr_set_u32(payload, NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1);
    return compare(bytes);
  }
  Rule& to_port(std::uint16_t port) {
    nftnl_expr* load = add("immediate");
    const std::uint16_t order = htons(port);
    nftnl_expr_set_u32(load, NFTNL_EXPR_IMM_DREG, NFT_REG_1);
    nftnl_expr_set_data(load, NFTNL_EXPR_IMM_DATA, &order, sizeof order);
    nftnl_expr* proxy = add("tproxy");
    // Of the packet, where the table is for both.
    nftnl_expr_set_u32(proxy, NFTNL_EXPR_TPROXY_FAMILY,
                       family_ == NFPROTO_INET ? NFPROTO_UNSPEC : family_);
    nftnl_expr_set_u32(proxy, NFTNL_EXPR_TPROXY_REG_PORT, NFT_REG_1);
    return *this;
  }
  Rule& accept() {
    nftnl_expr* verdict = add("immediate");
    nftnl_expr_set_u32(verdict, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
    nftnl_expr_set_u32(verdict, NFTNL_EXPR_IMM_VERDICT, NF_ACCEPT);
    return *this;
  }
  const nftnl_rule* get() const { return rule_.get(); }

 private:
  nftnl_expr* add(const char* name) {
    nftnl_expr* expression = nftnl_expr_alloc(name);
    CHECK(expression != nullptr);
    nftnl_rule_add_expr(rule_.get(), expression);
    return expression;
  }
  Rule& compare(std::span<const std::uint8_t> bytes) {
    nftnl_expr* condition = add("cmp");
    nftnl_expr_set_u32(condition, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
    nftnl_expr_set_u32(condition, NFTNL_EXPR_CMP_OP, NFT_CMP_EQ);
    nftnl_expr_set_data(condition, NFTNL_EXPR_CMP_DATA, bytes.data(),
                        static_cast<std::uint32_t>(bytes.size()));
    return *this;
  }

  std::uint32_t family_;
  std::unique_ptr<nftnl_rule, void (*)(const nftnl_rule*)> rule_;
};

void add_table(Messages& messages, std::uint16_t family) {
  messages.add([&](char* buffer) {
    const std::unique_ptr<nftnl_table, void (*)(const nftnl_table*)> table{nftnl_table_alloc(),
                                                                           &nftnl_table_free};
    nftnl_table_set_str(table.get(), NFTNL_TABLE_NAME, kTable);
    nlmsghdr* header = nftnl_nlmsg_build_hdr(buffer, NFT_MSG_NEWTABLE, family, NLM_F_CREATE, 0);
    nftnl_table_nlmsg_build_payload(header, table.get());
    return header;
  });
}

// What no rule speaks of is dropped: a kernel that meets something new lets nothing through.
void add_chain(Messages& messages, std::uint16_t family) {
  messages.add([&](char* buffer) {
    const std::unique_ptr<nftnl_chain, void (*)(const nftnl_chain*)> chain{nftnl_chain_alloc(),
                                                                           &nftnl_chain_free};
    nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_TABLE, kTable);
    nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_NAME, kChain);
    nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_TYPE, "filter");
    nftnl_chain_set_u32(chain.get(), NFTNL_CHAIN_HOOKNUM, NF_INET_PRE_ROUTING);
    nftnl_chain_set_s32(chain.get(), NFTNL_CHAIN_PRIO, NF_IP_PRI_MANGLE);
    nftnl_chain_set_u32(chain.get(), NFTNL_CHAIN_POLICY, NF_DROP);
    nlmsghdr* header = nftnl_nlmsg_build_hdr(buffer, NFT_MSG_NEWCHAIN, family, NLM_F_CREATE, 0);
    nftnl_chain_nlmsg_build_payload(header, chain.get());
    return header;
  });
}

std::vector<Rule> make_rules(std::uint32_t family, bool ipv6) {
  const auto rule = [&] { return Rule{family}; };
  const std::uint8_t loopback = kLoopbackNetwork;
  const auto own4 = address_bytes(AF_INET, kCellAddress4);
  std::vector<Rule> rules;
  const auto add = [&](Rule& next) { rules.push_back(std::move(next)); };
  add(rule()
          .is(NFT_META_NFPROTO, NFPROTO_IPV4)
          .header_is(NFT_PAYLOAD_NETWORK_HEADER, kDestination4, bytes_of(loopback))
          .accept());
  add(rule()
          .is(NFT_META_NFPROTO, NFPROTO_IPV4)
          .header_is(NFT_PAYLOAD_NETWORK_HEADER, kDestination4, own4)
          .accept());
  for (const char* text : {"::1", kCellAddress6}) {
    if (ipv6) {
      add(rule()
              .is(NFT_META_NFPROTO, NFPROTO_IPV6)
              .header_is(NFT_PAYLOAD_NETWORK_HEADER, kDestination6, address_bytes(AF_INET6, text))
              .accept());
    }
  }
  add(rule().is(NFT_META_L4PROTO, IPPROTO_TCP).to_port(kBoundaryPort).accept());
  for (const std::uint16_t port : {kDnsPort, kQuicPort}) {
    const std::uint16_t order = htons(port);
    add(rule()
            .is(NFT_META_L4PROTO, IPPROTO_UDP)
            .header_is(NFT_PAYLOAD_TRANSPORT_HEADER, kDestinationPort, bytes_of(order))
            .accept());
  }
  add(rule().is(NFT_META_L4PROTO, IPPROTO_UDP).to_port(kBoundaryPort).accept());
  return rules;
}

std::string make_rule_batch(bool ipv6) {
  // Without IPv6 the kernel may not have the family of both either.
  const std::uint16_t family = ipv6 ? NFPROTO_INET : NFPROTO_IPV4;
  Messages messages;
  messages.add([](char* buffer) { return nftnl_batch_begin(buffer, 0); });
  add_table(messages, family);
  add_chain(messages, family);
  for (const Rule& rule : make_rules(family, ipv6)) {
    messages.add([&](char* buffer) {
      nlmsghdr* header =
          nftnl_nlmsg_build_hdr(buffer, NFT_MSG_NEWRULE, family, NLM_F_CREATE | NLM_F_APPEND, 0);
      nftnl_rule_nlmsg_build_payload(header, const_cast<nftnl_rule*>(rule.get()));
      return header;
    });
  }
  messages.ask_for_answer();
  messages.add([](char* buffer) { return nftnl_batch_end(buffer, 0); });
  return messages.take();
}

}  // namespace

NetworkPlan make_network_plan(bool ipv6) {
  return {.routing = make_routing(ipv6),
          .rules = make_rule_batch(ipv6),
          .resolver_file = concat("nameserver ", kResolverAddress4, "\n"),
          .ipv6 = ipv6};
}

}  // namespace atl::runtime::namespaces
