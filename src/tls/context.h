// What a TLS server or client is configured with: certificates, keys, trust, protocols offered.
//
// OpenSSL stays inside this room. TLS 1.2 and 1.3 only. A context is immutable after it is made
// and may be shared by all connections of one loop.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::tls {

struct Identity {
  std::string certificate_pem;  // leaf first, then intermediates
  std::string key_pem;
};

struct ServerOptions {
  Identity identity;
  std::vector<std::string> protocols;  // ALPN, in order of preference: {"h2", "http/1.1"}
  // Refuses clients that offer protocols, but none of these; otherwise they go on without one.
  bool insists = false;
};

struct ClientOptions {
  std::string trusted_pem;             // empty: the host's roots
  std::vector<std::string> protocols;  // ALPN to offer
  Identity identity;                   // shown when the server asks; empty: none
  // False: any certificate will do. Only for peers that are known by how they are reached, such as
  // a port inside one sandbox.
  bool verify = true;
};

class Context {
 public:
  static Result<std::unique_ptr<Context>> server(const ServerOptions& options);
  static Result<std::unique_ptr<Context>> client(const ClientOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  struct Impl;  // private to this room

 private:
  friend class TlsStream;
  explicit Context(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Reads both PEM files; says which one is wrong and why.
Result<Identity> read_identity(const std::string& certificate_file, const std::string& key_file);

}  // namespace atl::tls
