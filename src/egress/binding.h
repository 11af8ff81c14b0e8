// How a sandbox's credentials are used: bindings as the policy document has them, and what one of
// them comes to at the moment of a request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace atl::egress {

enum class ProjectionKind : std::uint8_t {
  kHttpHeaders,
  kPlaceholders,
  kTlsClientCertificate,
  kUsernamePassword,
  kSshProxy,
};

// A value template is text with {{ .key }} where a value of the source goes.
struct ProjectedHeader {
  std::string name;
  std::string value_template;
  bool operator==(const ProjectedHeader&) const = default;
};

struct ProjectedPlaceholder {
  std::string placeholder;
  std::string value_template;
  bool in_header = false;
  bool in_query = false;
  bool in_body = false;
  bool operator==(const ProjectedPlaceholder&) const = default;
};

struct Projection {
  ProjectionKind kind = ProjectionKind::kHttpHeaders;
  std::vector<ProjectedHeader> headers;
  std::vector<ProjectedPlaceholder> placeholders;
  std::vector<std::string> sandbox_public_keys;  // ssh: whom the proxy lets in; empty: anybody
  std::string upstream_username;                 // ssh: instead of the client's; empty: the same
  std::vector<std::string> known_hosts;          // ssh: lines of a known_hosts file
  // A placeholder on its way to another host is blocked unless this says to let it go.
  bool forward_unmatched = false;
  // The real values are taken out of responses.
  bool redact_responses = false;
  bool operator==(const Projection&) const = default;
};

struct Binding {
  std::string ref;         // what rules call it
  std::string source_ref;  // empty: it has values of its own
  // Its own values, sealed for the team.
  std::string sealed;
  // Beside its own: sources that are looked for when it is used and not before. The values of the
  // third are called source2_<key>.
  std::vector<std::string> late_sources;
  Projection projection;
  std::int64_t cache_seconds = 300;
  bool has_own_values() const { return !sealed.empty() || !late_sources.empty(); }
  bool operator==(const Binding&) const = default;
};

// A binding's values, resolved and rendered. Made anew for every request or connection that needs
// one (the source has its own cache), so that rotation and revocation are immediate. Never logged,
// wiped when the last user lets go.
struct Material {
  struct Header {
    std::string name;
    std::string value;
  };
  struct Placeholder {
    std::string placeholder;
    std::string value;
    bool in_header = false;
    bool in_query = false;
    bool in_body = false;
  };

  Material() = default;
  Material(const Material&) = delete;
  Material& operator=(const Material&) = delete;
  ~Material();

  ProjectionKind kind = ProjectionKind::kHttpHeaders;
  std::string source_version;  // for the audit: "github-token@3"
  std::vector<Header> headers;
  std::vector<Placeholder> placeholders;
  std::string username;
  std::string password;
  std::string certificate_pem;
  std::string key_pem;
  std::string ca_pem;  // trusted for this upstream; empty: the host's roots
  std::string ssh_private_key_pem;
  std::string ssh_passphrase;
  bool redact_responses = false;
};
using MaterialPtr = std::shared_ptr<const Material>;

}  // namespace atl::egress
