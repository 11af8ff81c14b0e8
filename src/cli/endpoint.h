// Endpoint: which daemon to talk to, whom to trust and with which key.
//
// On https the certificates of --ca-file or $ATOLL_CA_FILE are trusted, else the host's.
// The address: --api-url, $ATOLL_API_URL, http://127.0.0.1:7070. The key: --api-key,
// $ATOLL_API_KEY, the file $ATOLL_KEY_FILE, admin.key in the data directory (--data-dir,
// $ATOLL_DATA_DIR, /var/lib/atoll). A key file of the last kind that cannot be read is no error
// here (a server may need no key); it is remembered, so that a refusal can be explained.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "cli/options.h"
#include "http/client.h"
#include "tls/context.h"

namespace atl::cli {

inline constexpr const char* kDefaultApiUrl = "http://127.0.0.1:7070";
inline constexpr const char* kDefaultDataDir = "/var/lib/atoll";

struct Endpoint {
  http::Url url;
  std::string url_text;
  // Trust for https; null on plain http. Shared by the connections of one command.
  std::shared_ptr<const tls::Context> tls;
  Secret key;
  std::string key_origin;   // "$ATOLL_API_KEY", "/var/lib/atoll/admin.key", for hints
  std::string key_problem;  // why there is none: "reading …: Permission denied"
  // Why there is no endpoint at all; only seen by commands that can do without.
  std::string problem;
};

// Empty when unset.
using EnvLookup = std::function<std::string(const char* name)>;
std::string lookup_process_env(const char* name);

Result<Endpoint> resolve_endpoint(const GlobalOptions& options, const EnvLookup& lookup);

}  // namespace atl::cli
