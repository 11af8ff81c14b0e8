// Private previews: for a while, whoever has a grant may see one port of a sandbox, also one that
// listens on loopback only.
//
// A grant is opened once, by the link that its creator was given; from then on a cookie with
// another secret is the key. Programs may send the access token in a header instead. Secrets are
// kept as SHA-256 only. A grant ends with its time, when its creator takes it back, and with the
// processes of its sandbox (the generation). Grants are records owned by the sandbox. Loop thread
// only.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "control/sandboxes.h"
#include "control/store_access.h"

namespace atl::control {

inline constexpr std::int64_t kMinPreviewSeconds = 30;
inline constexpr std::int64_t kMaxPreviewSeconds = 3600;
inline constexpr std::int64_t kPreviewSeconds = 900;
inline constexpr std::size_t kMaxPreviewsPerSandbox = 64;

struct Preview {
  std::string id;
  std::string sandbox_id;
  std::string team_id;
  std::string creator;  // the key that asked for it
  std::uint16_t port = 0;
  bool secure = false;  // the port speaks TLS itself
  std::string path = "/";
  UnixMillis expires_at = 0;
  std::int64_t generation = 0;
  std::int64_t version = 1;
  // SHA-256, raw; empty: not valid (any more).
  std::string link_sha256;
  std::string cookie_sha256;
  std::string token_sha256;
};

struct PreviewRequest {
  std::uint16_t port = 0;
  bool secure = false;
  std::string path = "/";
  std::int64_t ttl_seconds = kPreviewSeconds;
};

class Previews {
 public:
  Previews(StoreAccess store, Sandboxes& sandboxes, const WallClock& clock)
      : store_(store), sandboxes_(sandboxes), clock_(clock) {}

  // Reads the grants. REQUIRES: the sandboxes have started.
  Task<> start();

  struct Made {
    Preview preview;
    std::string link_secret;  // "<id>.<secret>", good once
    std::string token;        // the same form, for the header
  };
  // The sandbox is woken if it may be: a grant is bound to what runs.
  Task<Made> create(std::string team_id, std::string sandbox_id, std::string creator,
                    PreviewRequest request);
  Task<Preview> renew(std::string team_id, std::string sandbox_id, std::string creator,
                      std::string id, std::int64_t ttl_seconds);
  Task<> revoke(std::string team_id, std::string sandbox_id, std::string creator, std::string id);

  struct Opened {
    Preview preview;
    std::string cookie;
  };
  // Uses a link up. kUnauthenticated when it is not good for this port (any more).
  Task<Opened> open(std::string sandbox_id, std::uint16_t port, std::string link_secret);
  // Wakes the sandbox of a grant if it may be. When it goes on from its memory, its processes are
  // those that its grants are for, and they stay good.
  Task<> wake(std::string team_id, std::string sandbox_id);
  // The grant that a cookie or a token is good for.
  std::optional<Preview> find(std::string_view sandbox_id, std::uint16_t port,
                              std::string_view credential) const;

 private:
  using Table = std::map<std::string, Preview, std::less<>>;
  bool is_valid(const Preview& preview) const;
  Result<Preview> get_own(std::string_view team_id, std::string_view sandbox_id,
                          std::string_view creator, std::string_view id) const;
  Task<> write(Preview preview);
  Task<> forget_ended();

  StoreAccess store_;
  Sandboxes& sandboxes_;
  const WallClock& clock_;
  Table previews_;
};

}  // namespace atl::control
