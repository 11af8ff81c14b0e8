// What the supervisor hands to the API process, which could not read it itself: descriptors of
// files and ports that only root may open.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/fd.h"
#include "secrets/keyring.h"

namespace atl::tls {
class Context;
}

namespace atl::daemon {

struct ApiOptions;

Result<std::string> read_admin_hash(int fd);

// The file stays with the supervisor, for the next API process.
Result<secrets::Keyring> read_keyring(int fd);

// Null: plain HTTP. The file stays with the supervisor, for the next API process.
Result<std::unique_ptr<tls::Context>> read_tls_identity(int fd);

// The inherited one, or a new one where none was handed over.
Result<Fd> open_port(const ApiOptions& options);

// The one that was asked for, or the one the kernel picked.
std::uint16_t port_of(int fd, std::uint16_t asked);

}  // namespace atl::daemon
