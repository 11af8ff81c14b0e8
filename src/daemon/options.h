// What the three processes are told at their start: `serve` by a person, `node` and `api` by the
// supervisor. Nothing secret is in here: arguments are visible to every user of the host.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "control/limits.h"
#include "daemon/egress_options.h"

namespace atl::daemon {

inline constexpr std::uint64_t kMaxApprovalSeconds = 24ULL * 3600;
inline constexpr std::uint64_t kMaxDumpAfterSeconds = 365ULL * 24 * 3600;
inline constexpr const char* kDefaultCriuDirectory = "/opt/atoll/criu";

struct ServeOptions {
  std::string data_dir = "/var/lib/atoll";
  std::string host = "127.0.0.1";
  std::uint16_t port = 7070;
  std::string cache_dir;     // empty: the image room's default
  std::string user;          // empty: "atoll" if there is one, else the reserved number
  std::string guest_binary;  // empty: beside the executable
  std::string criu_dir = kDefaultCriuDirectory;
  std::int64_t dump_after_seconds = 600;  // 0: never
  std::int64_t approval_timeout_seconds = 120;
  std::uint64_t prepared_max = control::kDefaultMaxIdle;
  std::uint64_t prepared_memory = 0;  // 0: a part of the host's
  std::uint64_t pool_bytes = 0;
  std::string tls_certificate;  // files; both or none
  std::string tls_key;
  std::string cors_origin = "*";     // a list, * or none
  std::string secrets_key;           // a file; empty: secrets.key in the data directory
  std::string s3_endpoints;          // which endpoints of buckets may be dialled though not public
  std::string operator_policy;       // a file; empty: the operator has none
  std::string credential_endpoints;  // as s3_endpoints, for servers that hand out credentials
  std::string credential_commands;   // a directory of programs; empty: none are run
  std::string domain;                // below which services have hosts of their own; empty: none
  std::string public_url;            // how clients see this server; empty: where it listens
  std::string ssh_listen;            // ADDRESS:PORT; empty: no SSH
  std::string fault_plan;            // a file; only tests have one
  EgressOptions egress;
  LogFormat log = LogFormat::kText;
  // Not from the arguments: `atoll dev` says what its printer shall be told.
  bool print_for_clients = false;
  bool print_json = false;
};

// What both children share.
struct ChildOptions {
  std::string data_dir;
  std::string run_dir;
  std::string instance;
  uid_t uid = 0;  // the API's account
  gid_t gid = 0;
  LogFormat log = LogFormat::kText;
  pid_t supervisor = 0;
  int ready_fd = -1;
  int fault_fd = -1;  // base/fault_point.h; none: nothing is ever armed
};

struct NodeOptions {
  ChildOptions common;
  std::string cache_dir;
  std::string guest_binary;
  std::string criu_dir;
  std::uint64_t pool_bytes = 0;
  int lock_fd = -1;
};

struct ApiOptions {
  ChildOptions common;
  std::string host;
  std::uint16_t port = 0;
  int listen_fd = -1;  // a port below 1024, bound by the supervisor
  int admin_fd = -1;   // the SHA-256 of the admin key, 32 bytes
  int tls_fd = -1;     // certificates and private key, one PEM text; none: plain HTTP
  std::string cors_origin = "*";
  std::int64_t dump_after_seconds = 0;
  std::int64_t approval_timeout_seconds = 120;
  std::uint64_t prepared_max = 0;
  std::uint64_t prepared_memory = 0;
  int secrets_fd = -1;  // the keys that seal secrets: the text of a key file
  std::string s3_endpoints;
  EgressOptions egress;
  std::string domain;
  std::string public_url;
  std::string ssh_listen;
  std::string operator_policy;
  std::string credential_endpoints;
  std::string credential_commands;
};

// "127.0.0.1:7070", "[::1]:7070", ":7070" (all addresses); `option` is named when it is wrong.
struct ListenAddress {
  std::string host;
  std::uint16_t port = 0;
};
Result<ListenAddress> parse_listen_address(std::string_view option, const std::string& text);

Result<ServeOptions> parse_serve(std::span<char* const> words);
Result<NodeOptions> parse_node(std::span<char* const> words);
Result<ApiOptions> parse_api(std::span<char* const> words);
std::vector<std::string> to_words(const NodeOptions& options);
std::vector<std::string> to_words(const ApiOptions& options);

inline constexpr const char* kServeHelp =
    R"(Run the server: the root node process and the unprivileged API process.

Usage: atoll serve [options]

  --data-dir DIR       where everything is kept            (default /var/lib/atoll)
  --listen ADDR:PORT   where the API answers; port 0 picks (default 127.0.0.1:7070)
  --tls-cert FILE      certificate chain (PEM): the API speaks HTTPS only; needs --tls-key
  --tls-key FILE       its private key (PEM); `atoll cert dev` makes both for development
  --cors-origin LIST   origins of web pages that may call the API, * or none (default *)
  --secrets-key FILE   keys that seal stored credentials      (default DIR/secrets.key, made)
  --allow-s3-endpoint LIST  hosts and networks of buckets that are not public, like
                       minio.lan,10.1.0.0/16; http is for these only (default none)
  --domain NAME        services get hosts of their own below it, ID--pPORT.NAME; needs wildcard
                       DNS (default none: they are at /s/ID/PORT/ of this server)
  --public-url URL     how clients reach this server, when something stands in front of it
  --ssh-listen ADDR:PORT  log in to sandboxes with ssh, sftp and scp, like :2222 (default: no SSH)
  --operator-policy FILE  a network policy below that of every sandbox; read again when changed
  --allow-credential-endpoint LIST  servers of credentials that are not public, in the same form
  --credential-commands DIR  programs that print credentials  (default none)
  --cache-dir DIR      built templates  (default $ATOLL_CACHE_DIR, else /var/cache/atoll)
  --user NAME          account of the API process (default atoll, else a number in 61042..62041)
  --log json|text      form of the log (default text on a terminal, else json)
  --pool-size SIZE     size of a new storage pool, like 50Gi (default most of the free space)
  --guest-binary PATH  the guest agent (default atoll-guest beside the executable)
  --criu-dir DIR       where tools/setup-criu put criu     (default /opt/atoll/criu)
  --dump-after SECONDS a paused sandbox's memory goes to disk then (default 600; 0: never)
  --prepared-max N     sandboxes kept ready for a template that does not say how many; as claims
                       come, not all at once (default 100; 0: none, whatever templates say)
  --prepared-memory SIZE  for all that are ready, about 1Mi each (default a sixteenth of the host's)
  --approval-timeout SECONDS  how long a request that asks waits for an answer (default 120)
  --fault-plan FILE    for tests of this program: processes end where FILE says; never in production

The first start creates DIR/admin.key. SIGTERM or Ctrl-C stops everything cleanly; a second one
does not wait for requests under way.
)";

}  // namespace atl::daemon
