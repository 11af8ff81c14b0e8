#include "ingress/ssh_login.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "guest/wire_sftp.h"
#include "ingress/ssh_program.h"

namespace atl::ingress {
namespace {

constexpr std::string_view kMainSuffix = "+main";
constexpr std::size_t kMaxVariables = 128;
constexpr std::size_t kMaxVariableBytes = std::size_t{32} * 1024;

bool is_inside(std::string_view host) {
  return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == "0.0.0.0" ||
         host == "::" || host.empty();
}

// Takes the variable if there is room for it.
bool take_variable(ProgramRequest& program, const ssh::ChannelRequest& request) {
  std::size_t bytes = request.text.size() + request.value.size();
  for (const auto& [name, value] : program.env) {
    bytes += name.size() + value.size();
  }
  if (program.env.size() >= kMaxVariables || bytes > kMaxVariableBytes ||
      !control::validate_env({{request.text, request.value}}, "env")) {
    return false;
  }
  program.env.insert_or_assign(request.text, request.value);
  return true;
}

void take_terminal(ProgramRequest& program, const ssh::ChannelRequest& request) {
  constexpr guest::PtySize kUsual;
  program.terminal =
      guest::PtySize{.rows = request.rows == 0 ? kUsual.rows : request.rows,
                     .columns = request.columns == 0 ? kUsual.columns : request.columns};
  if (!request.text.empty() && control::validate_env({{"TERM", request.text}}, "env")) {
    program.env.insert_or_assign("TERM", request.text);
  }
}

// Whether the request says what to run.
bool take_command(ProgramRequest& program, const ssh::ChannelRequest& request) {
  using Kind = ssh::ChannelRequest::Kind;
  // By the user's own shell, which the agent inside knows.
  if (request.kind == Kind::kShell) {
    program.command = {"/bin/sh", "-c", R"(exec "${SHELL:-/bin/sh}" -l)"};
    return true;
  }
  if (request.kind == Kind::kExec) {
    program.command = {"/bin/sh", "-c", R"(exec "${SHELL:-/bin/sh}" -c "$0")", request.text};
    return true;
  }
  if (request.kind == Kind::kSubsystem && request.text == "sftp") {
    program.command = {std::string{guest::kSftpProgram}};
    program.terminal.reset();
    return true;
  }
  return false;
}

}  // namespace

std::optional<control::SandboxRef> SshLogin::find(std::string_view team_id,
                                                  std::string_view name) const {
  if (parts_.sandboxes.get(team_id, name)) {
    return control::SandboxRef{std::string{team_id}, std::string{name}};
  }
  const auto named = parts_.sandboxes.list(
      {.team_id = std::string{team_id}, .name = std::string{name}, .limit = 1});
  if (!name.empty() && named.sandboxes.size() == 1) {
    return control::SandboxRef{std::string{team_id}, named.sandboxes.front().id};
  }
  return std::nullopt;
}

bool SshLogin::let_in(std::string_view user, std::string_view key_blob) {
  if (user.ends_with(kMainSuffix)) {
    user.remove_suffix(kMainSuffix.size());
  }
  sandbox_.reset();
  for (const std::string& team : parts_.keys.teams_of(key_blob)) {
    const auto others = sessions_by_team_.find(team);
    if (others != sessions_by_team_.end() && others->second >= kMaxSshSessionsPerTeam) {
      continue;
    }
    sandbox_ = find(team, user);
    if (sandbox_) {
      key_blob_ = key_blob;
      key_fingerprint_ = ssh::fingerprint_sha256(key_blob);
      return true;
    }
  }
  return false;
}

void SshLogin::logged_in(std::string_view) {
  logged_in_ = true;
  in_team_.emplace(sessions_by_team_, sandbox_->team_id);
  on_login_();
  LOG_INFO("ssh login", {"sandbox", sandbox_->sandbox_id}, {"key", key_fingerprint_});
}

bool SshLogin::still_may() const {
  const auto teams = parts_.keys.teams_of(key_blob_);
  return std::ranges::find(teams, sandbox_->team_id) != teams.end();
}

Task<> SshLogin::serve_session(ssh::Channel& channel) {
  using Kind = ssh::ChannelRequest::Kind;
  ProgramRequest program;
  for (;;) {
    CO_TRY(const auto request, co_await channel.next_request());
    if (!still_may()) {
      channel.answer(false);
      co_return fail(Code::kPermissionDenied, "the key was removed");
    }
    if (request.kind == Kind::kEnvironment) {
      channel.answer(take_variable(program, request));
    } else if (request.kind == Kind::kTerminal) {
      take_terminal(program, request);
      channel.answer(true);
    } else if (take_command(program, request)) {
      channel.answer(true);
      co_return co_await run_program(parts_.reactor, parts_.sandboxes, *sandbox_,
                                     std::move(program), channel);
    } else {
      channel.answer(false);
    }
  }
}

Task<std::unique_ptr<io::Stream>> SshLogin::connect(std::string host, std::uint16_t port) {
  if (!parts_.connect || (!is_inside(host) && host != sandbox_->sandbox_id)) {
    co_return fail(Code::kPermissionDenied,
                   "only ports inside the sandbox can be reached: use localhost");
  }
  if (!still_may()) {
    co_return fail(Code::kPermissionDenied, "the key was removed");
  }
  auto use = parts_.sandboxes.use(sandbox_->team_id, sandbox_->sandbox_id);
  // Awake, before anybody can listen there.
  CO_TRY_DO(co_await parts_.sandboxes.running(sandbox_->team_id, sandbox_->sandbox_id));
  CO_TRY(Fd fd, co_await parts_.connect(sandbox_->team_id, sandbox_->sandbox_id, port));
  co_return std::unique_ptr<io::Stream>{
      std::make_unique<UsingStream>(parts_.reactor, std::move(fd), std::move(use))};
}

}  // namespace atl::ingress
