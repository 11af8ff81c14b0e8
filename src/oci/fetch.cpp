#include "oci/fetch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/fd.h"
#include "base/json.h"
#include "base/strings.h"
#include "oci/archive.h"
#include "oci/tool.h"

namespace atl::oci {
namespace {

constexpr const char* kAdvice = "install it with: apt install skopeo";
constexpr const char* kPolicy = "/etc/containers/policy.json";
constexpr std::size_t kMaxReferenceBytes = 512;

bool is_reference_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-' || c == '/' || c == ':' || c == '@' || c == '[' || c == ']';
}

// {"auths": {"registry": {"auth": base64}}}; without a login an empty one, so that skopeo does not
// look for the account's.
std::string auth_file_text(const FetchRequest& request) {
  Json auths = Json::object();
  if (request.login) {
    const std::string pair = concat(request.login->username, ":", request.login->password.reveal());
    auths.set(registry_of(request.reference), Json::object({{"auth", base64_encode(pair)}}));
  }
  return Json::object({{"auths", std::move(auths)}}).dump();
}

// A docker archive has manifest.json, an OCI one has oci-layout; neither need be first.
Result<std::string> archive_transport(const std::string& path) {
  const Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!fd) {
    return fail_errno("opening the archive");
  }
  TRY(const auto reader, ArchiveReader::open({.fd = fd.get()}, {}));
  bool docker = false;
  for (;;) {
    TRY(const auto entry, reader->next());
    if (!entry) {
      break;
    }
    if (entry->path == "oci-layout") {
      return concat("oci-archive:", path);
    }
    docker = docker || entry->path == "manifest.json";
  }
  if (docker) {
    return concat("docker-archive:", path);
  }
  return fail(Code::kInvalidArgument,
              "the archive is neither an OCI image (oci-layout) nor made by `docker save` "
              "(manifest.json)",
              "bad_image");
}

}  // namespace

Result<std::string> check_reference(std::string_view reference) {
  constexpr std::string_view kScheme = "docker://";
  if (reference.starts_with(kScheme)) {
    reference.remove_prefix(kScheme.size());
  }
  const bool good = !reference.empty() && reference.size() <= kMaxReferenceBytes &&
                    std::ranges::all_of(reference, is_reference_character) &&
                    reference.front() != '/' && reference.front() != '-' &&
                    reference.find("//") == reference.npos;
  if (!good) {
    return fail(Code::kInvalidArgument,
                concat("\"", to_valid_utf8(reference), "\" is no image reference; write it like ",
                       "registry.example/team/app:1.2"));
  }
  return std::string{reference};
}

std::string registry_of(std::string_view reference) {
  const auto slash = reference.find('/');
  const std::string_view first = reference.substr(0, slash);
  const bool named =
      slash != reference.npos && (first.find_first_of(".:[") != first.npos || first == "localhost");
  return std::string{named ? first : "docker.io"};
}

bool is_loopback_registry(std::string_view registry) {
  if (registry.starts_with("[::1]")) {
    return true;
  }
  const std::string_view host = registry.substr(0, registry.find(':'));
  if (host == "localhost") {
    return true;
  }
  const auto parts = split(host, '.');
  return parts.size() == 4 && parts[0] == "127" && std::ranges::all_of(parts, [](auto part) {
           const auto number = parse_u64(part);
           return number && *number <= 255;
         });
}

Task<std::string> fetch_image(io::Reactor& reactor, FetchRequest request) {
  const std::string layout = request.directory + "/layout";
  const std::string auth_file = request.directory + "/auth.json";
  CO_TRY_DO(replace_file(auth_file, auth_file_text(request), {.mode = 0600}));
  Tool tool{
      .argv = {"skopeo"},
      .environment = {concat("HOME=", request.directory), concat("TMPDIR=", request.directory),
                      concat("XDG_RUNTIME_DIR=", request.directory)},
      .max_file_bytes = request.max_blob_bytes,
      .on_line = std::move(request.on_line),
      .missing_advice = kAdvice};
  if (::access(kPolicy, R_OK) != 0) {
    tool.argv.emplace_back("--insecure-policy");  // there is no policy to keep to
  }
  tool.argv.insert(tool.argv.end(), {"copy", "--authfile", auth_file});
  if (request.archive.empty()) {
    CO_TRY(const std::string reference, check_reference(request.reference));
    if (!request.verify_tls || is_loopback_registry(registry_of(reference))) {
      tool.argv.emplace_back("--src-tls-verify=false");
    }
    tool.argv.push_back(concat("docker://", reference));
  } else {
    CO_TRY(std::string source, archive_transport(request.archive));
    tool.argv.push_back(std::move(source));
  }
  tool.argv.push_back(concat("oci:", layout));
  auto done = co_await run_tool(reactor, std::move(tool));
  ::unlink(auth_file.c_str());
  CO_TRY_DO(std::move(done));
  co_return layout;
}

}  // namespace atl::oci
