#include "cli/endpoint.h"

#include <cstdlib>

#include "base/fd.h"
#include "base/strings.h"
#include "cli/limits.h"

namespace atl::cli {
namespace {

// A key goes into a header line: nothing that could end the line may be in it.
bool is_header_safe(std::string_view key) {
  return std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

Result<Secret> check_key(std::string_view raw, std::string_view origin) {
  const auto key = trim(raw);
  if (key.empty() || !is_header_safe(key)) {
    return fail(Code::kInvalidArgument,
                concat("the API key from ", origin, " is empty or has characters no key has"));
  }
  return Secret{std::string{key}};
}

Result<> read_key_file(Endpoint& endpoint, const std::string& path) {
  TRY(const auto text, read_file(path, kMaxKeyFileBytes));
  TRY(endpoint.key, check_key(text, path));
  endpoint.key_origin = path;
  return {};
}

Result<> find_key(Endpoint& endpoint, const GlobalOptions& options, const EnvLookup& lookup) {
  if (!options.api_key.empty()) {
    endpoint.key_origin = "--api-key";
    TRY(endpoint.key, check_key(options.api_key, endpoint.key_origin));
    return {};
  }
  if (const auto key = lookup("ATOLL_API_KEY"); !key.empty()) {
    endpoint.key_origin = "$ATOLL_API_KEY";
    TRY(endpoint.key, check_key(key, endpoint.key_origin));
    return {};
  }
  // An explicit --data-dir is nearer to the person than the environment.
  if (const auto path = lookup("ATOLL_KEY_FILE"); !path.empty() && options.data_dir.empty()) {
    return read_key_file(endpoint, path);
  }
  auto data_dir = options.data_dir.empty() ? lookup("ATOLL_DATA_DIR") : options.data_dir;
  if (data_dir.empty()) {
    data_dir = kDefaultDataDir;
  }
  if (auto read = read_key_file(endpoint, concat(data_dir, "/admin.key")); !read) {
    endpoint.key_problem = read.error().message;
  }
  return {};
}

Result<> find_trust(Endpoint& endpoint, const GlobalOptions& options, const EnvLookup& lookup) {
  const auto file = options.ca_file.empty() ? lookup("ATOLL_CA_FILE") : options.ca_file;
  tls::ClientOptions trust{.trusted_pem = {}, .protocols = {"http/1.1"}};
  if (!file.empty()) {
    TRY(trust.trusted_pem, read_file(file));
  }
  auto context = tls::Context::client(trust);
  if (!context) {
    return fail(std::move(context).error().note(file));
  }
  endpoint.tls = *std::move(context);
  return {};
}

}  // namespace

std::string lookup_process_env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string{value};
}

Result<Endpoint> resolve_endpoint(const GlobalOptions& options, const EnvLookup& lookup) {
  Endpoint endpoint;
  endpoint.url_text = options.api_url.empty() ? lookup("ATOLL_API_URL") : options.api_url;
  if (endpoint.url_text.empty()) {
    endpoint.url_text = kDefaultApiUrl;
  }
  auto url = http::parse_url(endpoint.url_text);
  if (!url) {
    return fail(std::move(url).error().note(concat("API address ", endpoint.url_text)));
  }
  endpoint.url = *std::move(url);
  if (endpoint.url.secure) {
    TRY_DO(find_trust(endpoint, options, lookup));
  }
  TRY_DO(find_key(endpoint, options, lookup));
  return endpoint;
}

}  // namespace atl::cli
