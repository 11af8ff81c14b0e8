#include "guest/trust.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <optional>

#include "base/fd.h"
#include "base/strings.h"
#include "guest/files.h"
#include "guest/limits.h"
#include "guest/trust_files.h"
#include "guest/trust_java.h"
#include "guest/trust_tools.h"

namespace atl::guest {
namespace {

constexpr std::string_view kBegin = "# Atoll sandbox authority: begin\n";
constexpr std::string_view kEnd = "# Atoll sandbox authority: end\n";

// Where distributions look for anchors; the first is made, the others are served when they exist.
constexpr const char* kOtherAnchors[] = {"/etc/pki/ca-trust/source/anchors",
                                         "/etc/pki/trust/anchors",
                                         "/etc/ca-certificates/trust-source/anchors"};
// Bundles; the first is made when there is none at all.
constexpr const char* kBundles[] = {"/etc/ssl/certs/ca-certificates.crt",
                                    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                                    "/etc/pki/tls/certs/ca-bundle.crt",
                                    "/var/lib/ca-certificates/ca-bundle.pem",
                                    "/etc/ssl/ca-bundle.pem",
                                    "/etc/ssl/cert.pem"};
constexpr const char* kHashDirectory = "/etc/ssl/certs";
constexpr const char* kHashName = "atoll.pem";
constexpr const char* kEnvironment = "/etc/environment";
constexpr const char* kProfile = "/etc/profile.d/atoll-trust.sh";
constexpr const char* kJavaStore = "/etc/atoll/cacerts.jks";
constexpr const char* kSudoers = "/etc/sudoers.d/atoll-trust";
constexpr std::string_view kJavaVariable = "JAVA_TOOL_OPTIONS";
constexpr std::string_view kJavaProperty = "-Djavax.net.ssl.trustStore=";

// Variables that replace a program's own bundle, and those that add to it.
constexpr const char* kBundleVariables[] = {
    "SSL_CERT_FILE",       "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",  "PIP_CERT",
    "GIT_SSL_CAINFO",      "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",   "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "NIX_SSL_CERT_FILE",   "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "npm_config_cafile",   "YARN_HTTPS_CA_FILE_PATH",
    "BUNDLE_SSL_CA_CERT",  "HEX_CACERTS_PATH",
    "PERL_LWP_SSL_CA_FILE"};
constexpr const char* kAnchorVariables[] = {"NODE_EXTRA_CA_CERTS", "DENO_CERT"};

struct Variable {
  std::string name;
  std::string value;
};

std::string in_block(std::string_view text) {
  return concat(kBegin, text, kEnd);
}

// The bundle without any authority of ours, also one that a package manager has taken in.
std::string without_ours(std::string text, std::string_view earlier) {
  return without_text(without_block(text, kBegin, kEnd), earlier);
}

Result<> put_into_bundle(const std::string& path, std::string_view pem, std::string_view earlier) {
  TRY(const Place place, read_place(path));
  if (place.kind != PlaceKind::kFile) {
    return {};
  }
  std::string text = without_ours(place.content, earlier);
  if (pem.empty()) {
    return text.empty() ? remove_file(path) : replace_file(path, text, 0644);
  }
  if (!text.empty() && !text.ends_with('\n')) {
    text += '\n';
  }
  return replace_file(path, text + in_block(pem), 0644);
}

// The bundle that variables name: one that is there, by whatever way.
std::string find_bundle() {
  for (const char* path : kBundles) {
    struct stat status{};
    if (::stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
      return path;
    }
  }
  return {};
}

Result<> put_into_bundles(std::string_view pem, std::string_view earlier) {
  if (!pem.empty() && find_bundle().empty()) {
    TRY_DO(make_directories(split_path(kBundles[0]).parent));
    TRY_DO(replace_file(kBundles[0], in_block(pem), 0644));
  }
  Result<> outcome;
  for (const char* path : kBundles) {
    if (auto put = put_into_bundle(path, pem, earlier); !put) {
      outcome = std::move(put);  // the others still count
    }
  }
  return outcome;
}

Result<> put_anchors(std::string_view pem) {
  for (const char* directory : kOtherAnchors) {
    const std::string path = concat(directory, "/atoll.crt");
    if (is_directory(directory)) {
      TRY_DO(pem.empty() ? remove_file(path) : replace_file(path, pem, 0644));
    }
  }
  if (pem.empty()) {
    return remove_file(kTrustAnchor);
  }
  TRY_DO(make_directories(split_path(kTrustAnchor).parent));
  return replace_file(kTrustAnchor, pem, 0644);
}

std::string link_target(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t size = ::readlink(path.c_str(), target, sizeof target);
  return size < 0 ? std::string{} : std::string(target, static_cast<std::size_t>(size));
}

// Links of ours in a directory where OpenSSL looks by the hash of the subject.
void remove_hash_links() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory{::opendir(kHashDirectory), ::closedir};
  std::vector<std::string> ours;
  for (std::size_t i = 0; directory && i < kMaxTrustEntries; ++i) {
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) {
      break;
    }
    const std::string path = concat(kHashDirectory, "/", entry->d_name);
    if (entry->d_type == DT_LNK && link_target(path) == kHashName) {
      ours.push_back(path);
    }
  }
  for (const auto& path : ours) {
    (void)remove_file(path);
  }
}

Result<> put_hash_link(const TrustRequest& request) {
  if (!is_directory(kHashDirectory)) {
    return {};
  }
  remove_hash_links();
  const std::string name = concat(kHashDirectory, "/", kHashName);
  if (request.certificate_pem.empty()) {
    return link_target(name) == kTrustAnchor ? remove_file(name) : Result<>{};
  }
  TRY_DO(replace_link(name, kTrustAnchor));
  for (int number = 0; number < 10; ++number) {
    const std::string path = concat(kHashDirectory, "/", request.subject_hash, ".", number);
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0) {
      return replace_link(path, kHashName);
    }
  }
  return {};
}

std::vector<Variable> make_variables() {
  const std::string bundle = find_bundle();
  std::vector<Variable> variables;
  for (const char* name : kBundleVariables) {
    variables.push_back({name, bundle});
  }
  for (const char* name : kAnchorVariables) {
    variables.push_back({name, kTrustAnchor});
  }
  variables.push_back({"UV_SYSTEM_CERTS", "true"});
  variables.push_back({std::string{kJavaVariable}, concat(kJavaProperty, kJavaStore)});
  return variables;
}

Result<> put_environment(const std::vector<Variable>& variables) {
  TRY(const Place place, read_place(kEnvironment));
  if (place.kind == PlaceKind::kOther) {
    return {};
  }
  std::string text = without_block(place.content, kBegin, kEnd);
  std::string block;
  for (const auto& [name, value] : variables) {
    const bool is_set =
        text.starts_with(name + "=") || text.find(concat("\n", name, "=")) != std::string::npos;
    block += is_set ? "" : concat(name, "=\"", value, "\"\n");
  }
  if (!text.empty() && !text.ends_with('\n')) {
    text += '\n';
  }
  if (!block.empty()) {
    text += in_block(block);
  }
  if (text.empty() && place.kind == PlaceKind::kMissing) {
    return {};
  }
  return replace_file(kEnvironment, text, 0644);
}

Result<> put_profile(const std::vector<Variable>& variables) {
  if (variables.empty() || !is_directory(split_path(kProfile).parent)) {
    return remove_file(kProfile);
  }
  std::string text = "# Which certificates programs trust in this sandbox.\n";
  for (const auto& [name, value] : variables) {
    if (name == kJavaVariable) {
      text += concat("case \"$", name, "\" in *javax.net.ssl.trustStore=*) ;;\n  *) ", name,
                     "=\"${", name, ":+$", name, " }", value, "\" ;;\nesac\nexport ", name, "\n");
    } else {
      text += concat(": \"${", name, ":=", value, "}\"; export ", name, "\n");
    }
  }
  return replace_file(kProfile, text, 0644);
}

Result<> put_sudoers(const std::vector<Variable>& variables) {
  if (variables.empty() || !is_directory(split_path(kSudoers).parent)) {
    return remove_file(kSudoers);
  }
  std::string text = "Defaults env_keep += \"";
  for (const auto& variable : variables) {
    text += variable.name + " ";
  }
  text.back() = '"';
  return replace_file(kSudoers, text + "\n", 0440);
}

// Last, because processes get their variables from here: they name files that are there.
Result<> put_variables(const std::vector<Variable>& variables) {
  if (variables.empty()) {
    return remove_file(kTrustVariables);
  }
  std::string text;
  for (const auto& [name, value] : variables) {
    text += concat(name, "=", value, "\n");
  }
  TRY_DO(make_directories(split_path(kTrustVariables).parent));
  return replace_file(kTrustVariables, text, 0644);
}

// As the bundle has them, ours included. A Java of any version and place reads it when it is told
// to.
Result<> put_java_store(bool wanted) {
  if (!wanted) {
    return remove_file(kJavaStore);
  }
  const std::string bundle = find_bundle();
  char* real = ::realpath(bundle.c_str(), nullptr);
  TRY(const Place place, read_place(real == nullptr ? bundle : real));
  ::free(real);
  TRY_DO(make_directories(split_path(kJavaStore).parent));
  return replace_file(kJavaStore, java_key_store(place.content), 0644);
}

}  // namespace

Result<> install_trust(FileChannel& channel, const TrustRequest& request) {
  const std::string& pem = request.certificate_pem;
  TRY(const Place earlier, read_place(kTrustAnchor));
  TRY_DO(put_anchors(pem));
  TRY_DO(put_into_bundles(pem, earlier.content == pem ? "" : earlier.content));
  TRY_DO(put_hash_link(request));
  TRY_DO(put_java_store(!pem.empty()));
  if (earlier.content != pem) {
    trust_in_nss(pem.empty() ? "" : kTrustAnchor, {"", request.user}, !earlier.content.empty());
  }
  const auto variables = pem.empty() ? std::vector<Variable>{} : make_variables();
  TRY_DO(put_environment(variables));
  TRY_DO(put_profile(variables));
  TRY_DO(put_sudoers(variables));
  TRY_DO(put_variables(variables));
  return channel.send(Kind::kDone, {});
}

void add_trust_variables(std::vector<std::string>& env) {
  const Fd fd{::open(kTrustVariables, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return;
  }
  char buffer[kMaxTrustVariablesBytes];
  const ssize_t size = ::read(fd.get(), buffer, sizeof buffer);
  if (size <= 0 || static_cast<std::size_t>(size) == sizeof buffer) {
    return;
  }
  for (const auto line : split({buffer, static_cast<std::size_t>(size)}, '\n')) {
    const auto equals = line.find('=');
    if (equals == 0 || equals == line.npos || line.find('\0') != line.npos) {
      continue;
    }
    const auto prefix = line.substr(0, equals + 1);
    const auto found = std::ranges::find_if(
        env, [&](const std::string& entry) { return entry.starts_with(prefix); });
    if (found == env.end()) {
      env.emplace_back(line);
    } else if (line.substr(0, equals) == kJavaVariable &&
               found->find(kJavaProperty) == std::string::npos) {
      *found += concat(" ", line.substr(equals + 1));
    }
  }
}

}  // namespace atl::guest
