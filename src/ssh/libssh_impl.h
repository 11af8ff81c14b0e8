// libssh inside this room: handles that free themselves, and what both ends are configured with.
#pragma once

#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <libssh/server.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::ssh {

struct FreeLibssh {
  void operator()(ssh_key key) const { ::ssh_key_free(key); }
  void operator()(ssh_message message) const { ::ssh_message_free(message); }
  void operator()(ssh_event event) const { ::ssh_event_free(event); }
  void operator()(ssh_bind bind) const { ::ssh_bind_free(bind); }
  void operator()(ssh_session session) const { ::ssh_free(session); }
};
using KeyHandle = std::unique_ptr<std::remove_pointer_t<ssh_key>, FreeLibssh>;
using MessageHandle = std::unique_ptr<std::remove_pointer_t<ssh_message>, FreeLibssh>;
using EventHandle = std::unique_ptr<std::remove_pointer_t<ssh_event>, FreeLibssh>;
using BindHandle = std::unique_ptr<std::remove_pointer_t<ssh_bind>, FreeLibssh>;
using SessionHandle = std::unique_ptr<std::remove_pointer_t<ssh_session>, FreeLibssh>;

// Modern algorithms only. A server offers no finite-field exchange: it would cost the loop too
// much time, and every client of today has the others.
inline constexpr const char* kServerExchanges =
    "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,"
    "ecdh-sha2-nistp521";
inline constexpr const char* kClientExchanges =
    "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,"
    "ecdh-sha2-nistp521,diffie-hellman-group16-sha512,diffie-hellman-group14-sha256";
inline constexpr const char* kCiphers =
    "aes256-gcm@openssh.com,aes128-gcm@openssh.com,chacha20-poly1305@openssh.com,aes256-ctr,"
    "aes128-ctr";
inline constexpr const char* kCodes = "hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com";
inline constexpr const char* kKeyTypes =
    "ssh-ed25519,sk-ssh-ed25519@openssh.com,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,"
    "ecdsa-sha2-nistp521,sk-ecdsa-sha2-nistp256@openssh.com,rsa-sha2-512,rsa-sha2-256";
inline constexpr int kMinRsaKeyBits = 2048;

// kInvalidArgument when text or passphrase are wrong.
Result<KeyHandle> import_private_key(const std::string& text, const std::string& passphrase);
Result<std::string> key_blob(ssh_key key);
// What libssh says went wrong, made safe to show.
std::string last_error(void* session_or_bind);

}  // namespace atl::ssh
