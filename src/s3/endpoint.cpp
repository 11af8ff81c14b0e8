#include "s3/endpoint.h"

#include <algorithm>

#include "base/strings.h"
#include "s3/limits.h"

namespace atl::s3 {
namespace {

bool is_lower_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

Result<> check_bucket(std::string_view bucket) {
  const bool good =
      bucket.size() >= 3 && bucket.size() <= 63 && is_lower_alnum(bucket.front()) &&
      is_lower_alnum(bucket.back()) && !bucket.contains("..") &&
      std::ranges::all_of(bucket, [](char c) { return is_lower_alnum(c) || c == '-' || c == '.'; });
  if (!good) {
    return fail(
        Code::kInvalidArgument,
        "s3.bucket is 3 to 63 of a-z, 0-9, '-' and '.', with a letter or digit at both ends");
  }
  return {};
}

Result<> check_region(std::string_view region) {
  const auto in_region = [](char c) { return is_lower_alnum(c) || c == '-' || c == '_'; };
  if (region.size() > 64 || !std::ranges::all_of(region, in_region)) {
    return fail(Code::kInvalidArgument, "s3.region is a name like us-east-1");
  }
  return {};
}

Result<std::string> default_region(const Location& location) {
  if (!location.region.empty()) {
    return location.region;
  }
  if (location.provider == "r2") {
    return std::string{"auto"};
  }
  if (location.provider == "ali" && location.endpoint_url.empty()) {
    return fail(Code::kInvalidArgument, "s3.region is needed for ali, like cn-hangzhou");
  }
  return std::string{"us-east-1"};
}

Result<std::string> endpoint_text(const Location& location, std::string_view region) {
  if (!location.endpoint_url.empty()) {
    return location.endpoint_url;
  }
  if (location.provider == "aws") {
    const bool china = region.starts_with("cn-");
    return concat("https://s3.", region, ".amazonaws.com", china ? ".cn" : "");
  }
  if (location.provider == "ali") {
    const auto name = region.starts_with("oss-") ? std::string{region} : concat("oss-", region);
    return concat("https://s3.", name, ".aliyuncs.com");
  }
  return fail(Code::kInvalidArgument,
              "s3.endpoint_url is needed for r2, like https://ACCOUNT.r2.cloudflarestorage.com");
}

// In the host where the provider wants it there; elsewhere in the path, which every server of one's
// own understands without wildcard names. A bucket with dots would not fit a wildcard certificate.
bool is_virtual_host(const Location& location, const http::Url& url) {
  return (location.provider == "ali" ||
          (location.provider == "aws" && location.endpoint_url.empty())) &&
         !location.bucket.contains('.') && !io::IpAddress::parse(url.host);
}

}  // namespace

Result<EndpointPolicy> EndpointPolicy::parse(std::string_view list) {
  EndpointPolicy policy;
  if (trim(list).empty()) {
    return policy;
  }
  for (const auto part : split(list, ',')) {
    const auto entry = trim(part);
    if (policy.hosts_.size() + policy.networks_.size() == kMaxPolicyEntries) {
      return fail(Code::kInvalidArgument, concat("more than ", kMaxPolicyEntries, " endpoints"));
    }
    if (const auto network = io::IpNetwork::parse(entry)) {
      policy.networks_.push_back(*network);
      continue;
    }
    const bool is_name =
        !entry.empty() && entry.size() <= 253 && std::ranges::all_of(entry, [](char c) {
          return is_lower_alnum(static_cast<char>(c | 0x20)) || c == '-' || c == '.' || c == '_';
        });
    if (!is_name) {
      return fail(
          Code::kInvalidArgument,
          concat("\"", entry, "\" is not a host name, an address or a network like 10.0.0.0/8"));
    }
    policy.hosts_.push_back(to_lower(entry));
  }
  return policy;
}

bool EndpointPolicy::is_listed(std::string_view host, const io::IpAddress& address) const {
  return std::ranges::find(hosts_, to_lower(host)) != hosts_.end() ||
         std::ranges::any_of(networks_, [&address](const io::IpNetwork& network) {
           return network.contains(address);
         });
}

Result<io::IpAddress> EndpointPolicy::choose(const http::Url& url,
                                             const std::vector<io::IpAddress>& addresses) const {
  for (const io::IpAddress& address : addresses) {
    if (is_listed(url.host, address) || (url.secure && address.is_public())) {
      return address;
    }
  }
  const bool any_public = std::ranges::any_of(addresses, &io::IpAddress::is_public);
  return fail(Code::kInvalidArgument,
              any_public ? concat("the endpoint ", url.host, " must be https")
                         : concat("the endpoint ", url.host,
                                  " is not a public address; the operator of this server can allow "
                                  "it with --allow-s3-endpoint"),
              "endpoint_refused");
}

Result<Endpoint> locate(const Location& location) {
  if (location.provider != "aws" && location.provider != "ali" && location.provider != "r2") {
    return fail(Code::kInvalidArgument, "s3.provider is aws, ali or r2");
  }
  TRY_DO(check_bucket(location.bucket));
  TRY_DO(check_region(location.region));
  Endpoint endpoint{.bucket = location.bucket, .url = {}, .base_path = {}, .region = {}};
  TRY(endpoint.region, default_region(location));
  TRY(const std::string text, endpoint_text(location, endpoint.region));
  if (text.size() > kMaxEndpointBytes) {
    return fail(Code::kInvalidArgument, "s3.endpoint_url is too long");
  }
  auto url = http::parse_url(text);
  if (!url || !url->base_path.empty()) {
    return fail(Code::kInvalidArgument,
                "s3.endpoint_url is https://HOST or https://HOST:PORT, without a path");
  }
  endpoint.url = *std::move(url);
  if (is_virtual_host(location, endpoint.url)) {
    endpoint.url.host = concat(location.bucket, ".", endpoint.url.host);
  } else {
    endpoint.base_path = concat("/", location.bucket);
  }
  return endpoint;
}

}  // namespace atl::s3
