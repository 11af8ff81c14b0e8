#include "proxy/host_guard.h"

#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "proxy/endpoint.h"
#include "proxy/socket.h"

namespace atl::proxy {
namespace {

constexpr std::size_t kMaxNoticeBytes = 64 << 10;
constexpr std::chrono::seconds kFollowAgainAfter{1};

Result<Fd> open_notices() {
  Fd fd{::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)};
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail_errno("following this host's addresses");
  }
  return fd;
}

}  // namespace

Result<std::vector<egress::Address>> own_addresses() {
  std::vector<egress::Address> own;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    return fail_errno("reading this host's own addresses");
  }
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    const bool internet = one->ifa_addr != nullptr && (one->ifa_addr->sa_family == AF_INET ||
                                                       one->ifa_addr->sa_family == AF_INET6);
    if (internet) {
      sockaddr_storage storage{};
      std::memcpy(&storage, one->ifa_addr,
                  one->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
      own.push_back(endpoint_of(storage).address);
    }
  }
  ::freeifaddrs(first);
  return own;
}

HostGuard::HostGuard(std::vector<egress::Network> opened)
    : opened_(std::move(opened)), guard_(opened_, {}) {
  if (auto read = refresh(); !read) {
    LOG_ERROR("nothing is dialled before this host's addresses are known", {"error", read.error()});
  }
}

Result<> HostGuard::refresh() {
  TRY(auto own, own_addresses());
  guard_ = egress::AddressGuard{opened_, std::move(own)};
  known_ = true;
  return {};
}

Task<> HostGuard::run(io::Reactor& reactor) {
  for (;;) {
    auto ended = co_await follow(reactor);
    if (!ended && ended.error().code == Code::kCancelled) {
      co_return ok();
    }
    if (!ended) {
      LOG_ERROR("this host's addresses cannot be followed", {"error", ended.error()});
    }
    CO_TRY_DO(co_await sleep_for(kFollowAgainAfter));
  }
}

Task<> HostGuard::follow(io::Reactor& reactor) {
  CO_TRY(Fd notices, open_notices());
  Socket socket{reactor, std::move(notices)};
  CO_TRY_DO(refresh());  // what changed before we listened
  for (;;) {
    auto notice = co_await receive_some(socket, kMaxNoticeBytes);
    // ENOBUFS: notices were lost, so there were some.
    if (!notice && notice.error().reason != "ENOBUFS") {
      co_return fail(std::move(notice).error());
    }
    CO_TRY_DO(refresh());
  }
}

}  // namespace atl::proxy
