// One SSH connection to a sandbox: who may come in, and what they get.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "control/contexts.h"
#include "ingress/counted.h"
#include "ingress/ssh_gateway.h"
#include "ssh/server.h"

namespace atl::ingress {

class SshLogin final : public ssh::ServerHandler {
 public:
  // Both outlive it.
  SshLogin(const SshGateway::Parts& parts, Counted::Counts& sessions_by_team,
           std::function<void()> on_login)
      : parts_(parts), sessions_by_team_(sessions_by_team), on_login_(std::move(on_login)) {}

  bool is_logged_in() const { return logged_in_; }

  bool let_in(std::string_view user, std::string_view key_blob) override;
  void logged_in(std::string_view user) override;
  Task<> serve_session(ssh::Channel& channel) override;
  Task<std::unique_ptr<io::Stream>> connect(std::string host, std::uint16_t port) override;

 private:
  std::optional<control::SandboxRef> find(std::string_view team_id, std::string_view name) const;

  // Whether the key is still one of the team's: a connection may outlive it.
  bool still_may() const;

  const SshGateway::Parts& parts_;
  Counted::Counts& sessions_by_team_;
  std::function<void()> on_login_;
  std::optional<control::SandboxRef> sandbox_;
  std::string key_blob_;
  std::string key_fingerprint_;
  std::optional<Counted> in_team_;
  bool logged_in_ = false;
};

}  // namespace atl::ingress
