// `atoll cert dev`: a local authority and a certificate for this machine. Needs no server.
//
// The keys are readable by their owner only. The authority is kept when it is already there: only
// the certificate is made anew, so that what trusts the authority goes on working.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/fd.h"
#include "base/json.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "tls/mint.h"

namespace atl::cli {
namespace {

constexpr std::size_t kMaxNames = 64;
constexpr int kAuthorityDays = 3650;

// Sandboxes get {port}-{id}.<domain>: one wildcard is for all of them.
std::string all_names(const CertDevOptions& options) {
  return options.domain.empty() ? options.names
                                : concat(options.names, ",", options.domain, ",*.", options.domain);
}

Result<std::vector<std::string>> parse_names(const std::string& text) {
  std::vector<std::string> names;
  for (const auto piece : split(text, ',')) {
    const auto name = trim(piece);
    if (name.empty() || name.find_first_of(" \t/:;\\\"") != std::string_view::npos) {
      // An IPv6 address is the one name with colons.
      if (name.empty() || name.find_first_not_of("0123456789abcdefABCDEF:.") != name.npos) {
        return fail(Code::kInvalidArgument,
                    concat("\"", name, "\" is no host name or address; separate them by commas"));
      }
    }
    names.emplace_back(name);
  }
  if (names.size() > kMaxNames) {
    return fail(Code::kInvalidArgument, concat("a certificate gets at most ", kMaxNames, " names"));
  }
  return names;
}

Result<tls::Identity> keep_or_make_authority(const std::string& directory) {
  const std::string certificate = directory + "/ca.crt";
  const std::string key = directory + "/ca.key";
  if (::access(certificate.c_str(), F_OK) == 0 && ::access(key.c_str(), F_OK) == 0) {
    return tls::read_identity(certificate, key);
  }
  TRY(auto authority, tls::mint_authority({.common_name = "Atoll development authority",
                                           .valid_days = kAuthorityDays}));
  TRY_DO(replace_file(key, authority.key_pem, {.mode = 0600}));
  TRY_DO(replace_file(certificate, authority.certificate_pem, {.mode = 0644}));
  return authority;
}

Result<> make_certificates(const std::string& directory, const CertDevOptions& options) {
  if (options.domain.find_first_of("*,:") != std::string::npos || options.domain.starts_with('.') ||
      options.domain.ends_with('.')) {
    return fail(Code::kInvalidArgument, "--domain is one name, like sandboxes.localhost");
  }
  TRY(const auto names, parse_names(all_names(options)));
  if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) {
    return fail_errno(concat("creating ", directory));
  }
  TRY(const auto authority, keep_or_make_authority(directory));
  TRY(const auto leaf, tls::mint_leaf(authority, {.names = names}));
  TRY_DO(replace_file(directory + "/server.key", leaf.key_pem, {.mode = 0600}));
  return replace_file(directory + "/server.crt", leaf.certificate_pem, {.mode = 0644});
}

// The lines that make E2B's packages find a server of this machine by host names alone.
std::string e2b_lines(const std::string& directory, const std::string& domain) {
  std::error_code ignored;
  const std::string authority = std::filesystem::absolute(directory + "/ca.crt", ignored);
  return concat("For E2B's SDKs, where every name below ", domain, " leads to this machine:\n",
                "  export E2B_DOMAIN=", domain, ":7070 E2B_API_KEY=e2b_...\n",
                "  export NODE_EXTRA_CA_CERTS=", authority, "   # JavaScript\n",
                "  export SSL_CERT_FILE=", authority, "         # Python\n");
}

}  // namespace

Task<int> command_cert_dev(CommandContext& context, const CertDevOptions& options) {
  std::string directory = options.directory;
  while (directory.size() > 1 && directory.ends_with('/')) {
    directory.pop_back();
  }
  CO_TRY_DO(make_certificates(directory, options));
  if (context.options.json) {
    context.console.print(Json::object({{"ca", directory + "/ca.crt"},
                                        {"certificate", directory + "/server.crt"},
                                        {"key", directory + "/server.key"}})
                              .dump_pretty() +
                          "\n");
    co_return 0;
  }
  if (context.options.quiet) {
    context.console.print(concat(directory, "\n"));
    co_return 0;
  }
  context.console.print(concat(
      "Made a certificate for ", all_names(options), " in ", directory, ". Use it like this:\n",
      "  atoll serve --tls-cert ", directory, "/server.crt --tls-key ", directory, "/server.key",
      options.domain.empty() ? "" : " --domain ", options.domain, "\n",
      "  export ATOLL_API_URL=https://127.0.0.1:7070 ATOLL_CA_FILE=", directory, "/ca.crt\n",
      "  curl --cacert ", directory, "/ca.crt https://127.0.0.1:7070/healthz\n",
      options.domain.empty() ? std::string{} : e2b_lines(directory, options.domain), "Whoever has ",
      directory, "/ca.key can impersonate any host to those who trust ca.crt.\n"));
  co_return 0;
}

}  // namespace atl::cli
