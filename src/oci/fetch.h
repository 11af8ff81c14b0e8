// Getting an image from a registry or out of an archive into an OCI layout, by skopeo.
//
// skopeo speaks the registry protocols and reads every archive format; it runs as this process's
// user. Credentials go through a file that only this user can read, never through arguments, and
// the user's own ones are never looked at. What comes back is checked again by open_image_layout.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/task.h"
#include "io/reactor.h"

namespace atl::oci {

// "alpine", "registry.example:5000/team/app:1.2", "app@sha256:...": normal form, or why it is none.
Result<std::string> check_reference(std::string_view reference);
// "registry.example:5000"; "docker.io" when the reference names none.
std::string registry_of(std::string_view reference);
// 127.0.0.0/8, ::1, localhost: plain HTTP is all right there.
bool is_loopback_registry(std::string_view registry);

struct RegistryLogin {
  std::string username;
  Secret password;
};

struct FetchRequest {
  // Exactly one of the two.
  std::string reference;
  std::string archive;  // path of a docker-archive or oci-archive file
  std::optional<RegistryLogin> login;
  bool verify_tls = true;  // false: also plain HTTP; always so for a loopback registry
  std::string directory;   // empty and private; the layout is made in "layout" below it
  std::uint64_t max_blob_bytes = 0;
  std::function<void(std::string_view line)> on_line;
};

// The directory of the layout.
Task<std::string> fetch_image(io::Reactor& reactor, FetchRequest request);

}  // namespace atl::oci
