// Where a bucket is, and whether the operator lets us go there.
//
// A tenant names the endpoint, we dial it from inside the operator's network: that is how metadata
// services and databases get read. So an address must be public unless the operator allowed it, and
// the address that is judged is the one that is dialled. Plain http only where allowed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "http/client.h"
#include "io/address.h"

namespace atl::s3 {

class EndpointPolicy {
 public:
  // A list with commas of host names, addresses and networks: "minio.lan,10.1.0.0/16".
  static Result<EndpointPolicy> parse(std::string_view list);

  // Chosen by the operator, by name or by address.
  bool is_listed(std::string_view host, const io::IpAddress& address) const;
  // The first of the addresses that may be dialled for this URL.
  Result<io::IpAddress> choose(const http::Url& url,
                               const std::vector<io::IpAddress>& addresses) const;

 private:
  std::vector<std::string> hosts_;  // lower case
  std::vector<io::IpNetwork> networks_;
};

struct Location {
  std::string provider = "aws";  // aws, ali, r2
  std::string bucket;
  std::string region;        // empty: the provider's default
  std::string endpoint_url;  // empty: the provider's own
};

struct Endpoint {
  std::string bucket;
  http::Url url;          // with the bucket in the host when it is not in the path
  std::string base_path;  // "" or "/bucket"
  std::string region;     // to sign for
};

// Says which field is wrong and what it should be.
Result<Endpoint> locate(const Location& location);

}  // namespace atl::s3
