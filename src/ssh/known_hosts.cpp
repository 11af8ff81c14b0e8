#include "ssh/known_hosts.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>

#include "base/random.h"
#include "base/strings.h"

namespace atl::ssh {
namespace {

constexpr std::uint16_t kUsualPort = 22;
constexpr std::size_t kMaxPatternBytes = 1024;

// The name under which a server is looked up.
std::string lookup_name(std::string_view host, std::uint16_t port) {
  const std::string lower = to_lower(host);
  return port == kUsualPort ? lower : concat("[", lower, "]:", port);
}

// * and ? only, as ssh has them. No recursion: time is bounded by the product of the lengths.
bool wildcard_match(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

// "|1|<salt>|<HMAC-SHA1 of the name>", both in base64.
bool hashed_match(std::string_view hosts, std::string_view name) {
  const auto parts = split(hosts, '|');
  if (parts.size() != 4 || !parts[0].empty() || parts[1] != "1") {
    return false;
  }
  const auto salt = base64_decode(parts[2]);
  const auto expected = base64_decode(parts[3]);
  if (!salt || !expected || salt->empty()) {
    return false;
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (::HMAC(::EVP_sha1(), salt->data(), static_cast<int>(salt->size()),
             reinterpret_cast<const unsigned char*>(name.data()), name.size(), digest,
             &size) == nullptr) {
    return false;
  }
  return equal_constant_time({reinterpret_cast<const char*>(digest), size}, *expected);
}

std::string_view next_word(std::string_view& line) {
  line = trim(line);
  const auto end = std::min(line.find_first_of(" \t"), line.size());
  const auto word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

}  // namespace

Result<KnownHosts> KnownHosts::parse(const std::vector<std::string>& lines) {
  KnownHosts known;
  for (const std::string& text : lines) {
    std::string_view rest = trim(text);
    if (rest.empty() || rest.starts_with('#')) {
      continue;
    }
    if (known.lines_.size() == kMaxKnownHosts) {
      return fail(Code::kInvalidArgument, concat("more than ", kMaxKnownHosts, " known hosts"));
    }
    Line line;
    std::string_view hosts = next_word(rest);
    if (hosts.starts_with('@')) {
      if (hosts != "@revoked") {
        return fail(Code::kInvalidArgument,
                    "a known host is marked with something else than @revoked; host certificates "
                    "are not supported, list the server's own key");
      }
      line.revoked = true;
      hosts = next_word(rest);
    }
    if (hosts.empty() || hosts.size() > kMaxPatternBytes) {
      return fail(Code::kInvalidArgument,
                  "a known host must be a line like \"github.com ssh-ed25519 AAAA...\"");
    }
    // What is hashed is base64: only names may be made lower case.
    line.hosts = hosts.starts_with('|') ? std::string{hosts} : to_lower(hosts);
    auto key = parse_public_key(rest);
    if (!key) {
      return fail(std::move(key.error()).note(concat("known host ", to_valid_utf8(hosts))));
    }
    line.key = *std::move(key);
    known.lines_.push_back(std::move(line));
  }
  return known;
}

bool KnownHosts::matches(const Line& line, std::string_view name) {
  if (line.hosts.starts_with('|')) {
    return hashed_match(line.hosts, name);
  }
  bool found = false;
  for (std::string_view pattern : split(line.hosts, ',')) {
    if (pattern.starts_with('!')) {
      if (wildcard_match(pattern.substr(1), name)) {
        return false;
      }
    } else {
      found = found || wildcard_match(pattern, name);
    }
  }
  return found;
}

Result<> KnownHosts::verify(std::string_view host, std::uint16_t port,
                            std::string_view key_blob) const {
  const std::string name = lookup_name(host, port);
  bool known = false;
  bool same = false;
  for (const Line& line : lines_) {
    if (!matches(line, name)) {
      continue;
    }
    const bool this_key = equal_constant_time(line.key.blob, key_blob);
    if (line.revoked) {
      if (this_key) {
        return fail(Code::kPermissionDenied, concat("the host key of ", name, " is revoked"));
      }
      continue;
    }
    known = true;
    same = same || this_key;
  }
  if (same) {
    return {};
  }
  return fail(Code::kPermissionDenied,
              concat(known ? "the host key is not the one known for " : "no host key is known for ",
                     name, "; it showed ", fingerprint_sha256(key_blob)));
}

std::vector<std::string> KnownHosts::key_types(std::string_view host, std::uint16_t port) const {
  const std::string name = lookup_name(host, port);
  std::vector<std::string> types;
  for (const Line& line : lines_) {
    if (!line.revoked && matches(line, name) &&
        std::find(types.begin(), types.end(), line.key.type) == types.end()) {
      types.push_back(line.key.type);
    }
  }
  return types;
}

}  // namespace atl::ssh
