#include "daemon/egress_options.h"

#include <unistd.h>

#include "base/strings.h"
#include "proxy/dns/servers.h"

namespace atl::daemon {
namespace {
constexpr std::uint64_t kMostConnections = 1'000'000;
}

Result<EgressOptions> parse_egress(const Arguments& arguments) {
  EgressOptions options;
  for (const std::string& text : arguments.texts("dns-upstream")) {
    const auto server = proxy::Endpoint::parse(text, proxy::dns::kDnsPort);
    if (!server) {
      return fail(Code::kInvalidArgument,
                  concat("--dns-upstream ", text, ": expected an address, or ADDRESS:PORT"));
    }
    options.dns_upstreams.push_back(*server);
  }
  for (const std::string& text : arguments.texts("open-egress")) {
    const auto network = egress::Network::parse(text);
    if (!network) {
      return fail(Code::kInvalidArgument,
                  concat("--open-egress ", text, ": expected a network, like 10.1.0.0/16"));
    }
    options.opened.push_back(*network);
  }
  TRY(const std::uint64_t connections, arguments.number("egress-connections", 0, kMostConnections));
  options.limits.connections = static_cast<std::uint32_t>(connections);
  if (arguments.has("egress-bandwidth")) {
    const auto bytes = parse_quantity(arguments.text("egress-bandwidth"));
    if (!bytes || *bytes == 0) {
      return fail(Code::kInvalidArgument,
                  "--egress-bandwidth is a size for each second, like 10Mi");
    }
    options.limits.bytes_per_second_out = options.limits.bytes_per_second_in = *bytes;
  }
  options.roots_file = arguments.text("egress-roots");
  return options;
}

void append_words(const EgressOptions& options, std::vector<std::string>& words) {
  const auto add = [&](std::string name, std::string value) {
    words.push_back(std::move(name));
    words.push_back(std::move(value));
  };
  for (const auto& server : options.dns_upstreams) {
    add("--dns-upstream", server.text());
  }
  for (const auto& network : options.opened) {
    add("--open-egress", network.text());
  }
  if (options.limits.connections != 0) {
    add("--egress-connections", concat(options.limits.connections));
  }
  if (options.limits.bytes_per_second_out != 0) {
    add("--egress-bandwidth", concat(options.limits.bytes_per_second_out));
  }
  if (options.roots_fd >= 0) {
    add("--egress-roots-fd", concat(options.roots_fd));
  }
}

// The file stays with the supervisor, for the next API process.
Result<std::string> read_egress_roots(const EgressOptions& options) {
  std::string pem;
  if (options.roots_fd < 0) {
    return pem;
  }
  pem.resize(kMaxRootsBytes);
  const ssize_t size = ::pread(options.roots_fd, pem.data(), pem.size(), 0);
  ::close(options.roots_fd);
  if (size <= 0) {
    return fail(Code::kInternal, "the supervisor handed over no usable certificates");
  }
  pem.resize(static_cast<std::size_t>(size));
  return pem;
}

}  // namespace atl::daemon
