// The steps that make files: what every template has, COPY, WORKDIR, USER.
#include <algorithm>

#include "base/strings.h"
#include "control/accounts.h"
#include "control/build_steps.h"
#include "control/template_spec.h"
#include "oci/ignore.h"

namespace atl::control {
namespace {

// A few entries from memory; parents come first.
class SmallTree final : public oci::TreeSource {
 public:
  void add(oci::ArchiveEntry entry, std::string content = {}) {
    entry.size = content.size();
    items_.emplace_back(std::move(entry), std::move(content));
  }
  bool empty() const { return items_.empty(); }

  Result<std::optional<oci::ArchiveEntry>> next() override {
    if (next_ == items_.size()) {
      return std::nullopt;
    }
    read_ = 0;
    return items_[next_++].first;
  }
  Result<std::size_t> read(std::span<char> buffer) override {
    const std::string_view rest = std::string_view{items_[next_ - 1].second}.substr(read_);
    const std::size_t size = std::min(buffer.size(), rest.size());
    std::ranges::copy(rest.substr(0, size), buffer.begin());
    read_ += size;
    return size;
  }

 private:
  std::vector<std::pair<oci::ArchiveEntry, std::string>> items_;
  std::size_t next_ = 0;
  std::size_t read_ = 0;
};

oci::ArchiveEntry directory_entry(std::string_view path, std::uint32_t mode, std::uint32_t uid,
                                  std::uint32_t gid, UnixMillis now) {
  while (path.starts_with('/')) {
    path.remove_prefix(1);
  }
  return {.path = std::string{path},
          .type = oci::EntryType::kDirectory,
          .mode = mode,
          .uid = uid,
          .gid = gid,
          .modified_unix_ns = now * 1'000'000};
}

Task<> write_text(const GuestClient& guest, std::string path, std::string text) {
  CO_TRY(const auto writer, co_await guest.write_file({.path = std::move(path)}));
  CO_TRY_DO(co_await writer->write(text));
  CO_TRY_DO(co_await writer->finish());
  co_return ok();
}

Task<AccountFiles> read_accounts(const GuestClient& guest) {
  auto passwd = co_await read_in_build(guest, "/etc/passwd");
  auto group = co_await read_in_build(guest, "/etc/group");
  co_return AccountFiles{passwd ? *std::move(passwd) : "", group ? *std::move(group) : ""};
}

// Those of the path and its parents that are not there, outermost first.
Task<std::vector<std::string>> missing_directories(const GuestClient& guest, std::string path) {
  std::vector<std::string> missing;
  while (path.size() > 1) {
    if (const auto there = co_await guest.stat({.path = path})) {
      break;
    }
    missing.insert(missing.begin(), path);
    path = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
  }
  co_return missing;
}

Task<> make_owned(LayerFactory& factory, const BuildCell& cell, std::string path,
                  const Account& owner, UnixMillis now) {
  CO_TRY(const auto missing, co_await missing_directories(cell.guest, std::move(path)));
  SmallTree tree;
  for (const std::string& directory : missing) {
    tree.add(directory_entry(directory, 0755, owner.uid, owner.gid, now));
  }
  if (!tree.empty()) {
    CO_TRY_DO(
        co_await write_tree(factory.reactor(), factory.pool(), {cell.guest_socket, "/", {}}, tree));
  }
  co_return ok();
}

// The account, made when there is none.
Task<Account> ensure_account(LayerFactory& factory, const BuildCell& cell, std::string name,
                             std::string shell, UnixMillis now) {
  CO_TRY(AccountFiles files, co_await read_accounts(cell.guest));
  if (auto known = find_account(files.passwd, name)) {
    co_return *std::move(known);
  }
  if (name == "root" || name == "0") {
    co_return Account{"root", 0, 0, "/root"};
  }
  CO_TRY(const Account made, add_account(files, name, shell));
  CO_TRY_DO(co_await write_text(cell.guest, "/etc/passwd", std::move(files.passwd)));
  CO_TRY_DO(co_await write_text(cell.guest, "/etc/group", std::move(files.group)));
  CO_TRY_DO(co_await make_owned(factory, cell, made.home, made, now));
  co_return made;
}

// Up to the first part with a wildcard: what matched is all that the archive has.
std::string without_pattern(std::string_view source) {
  std::string out;
  for (const std::string_view part : split(source, '/')) {
    if (oci::has_wildcard(part)) {
      return out.empty() ? "." : out;
    }
    out += concat(out.empty() ? "" : "/", part);
  }
  return out.empty() ? "." : out;
}

Result<std::optional<std::uint32_t>> parse_mode(std::string_view text) {
  if (text.empty()) {
    return std::nullopt;
  }
  std::uint32_t mode = 0;
  for (const char c : text) {
    mode = c >= '0' && c <= '7' && mode <= 07777 ? mode * 8 + static_cast<std::uint32_t>(c - '0')
                                                 : 010000;
  }
  if (mode > 07777) {
    return fail(Code::kInvalidArgument,
                concat("the mode \"", to_valid_utf8(text), "\" must be octal such as 0755"));
  }
  return mode;
}

}  // namespace

// --- what every template has -----------------------------------------------------------------

Task<> BuildSteps::prepare(const BuildCell& cell) {
  const UnixMillis now = log_.now();
  if (!request_.from_template && !tools_failed_) {
    CO_TRY_DO(co_await add_tools(cell));
  }
  CO_TRY(const Account user, co_await ensure_account(factory_, cell, std::string{kPlatformUser},
                                                     image_.start.shell, now));
  SmallTree tree;
  tree.add(directory_entry("code", 0777, user.uid, user.gid, now));
  tree.add(directory_entry("usr/local", 0777, 0, 0, now));
  tree.add(directory_entry("etc/sudoers.d", 0750, 0, 0, now));
  tree.add({.path = "etc/sudoers.d/atoll-user", .mode = 0440, .modified_unix_ns = now * 1'000'000},
           concat(kPlatformUser, " ALL=(ALL:ALL) NOPASSWD: ALL\n"));
  tree.add({.path = ".e2b", .mode = 0444, .modified_unix_ns = now * 1'000'000},
           concat("BASE=", request_.base_name, "\n"));
  CO_TRY_DO(
      co_await write_tree(factory_.reactor(), factory_.pool(), {cell.guest_socket, "/", {}}, tree));
  co_return ok();
}

// What people expect to find and an image may lack, where the image can install.
Task<> BuildSteps::add_tools(const BuildCell& cell) {
  constexpr std::uint64_t kToolsTimeoutMs = 300'000;
  bool missing = false;
  for (const char* tool :
       {"/usr/bin/sudo", "/usr/bin/curl", "/etc/ssl/certs/ca-certificates.crt"}) {
    const auto there = co_await cell.guest.stat({.path = tool});
    missing = missing || !there;
  }
  const auto apt = co_await cell.guest.stat({.path = "/usr/bin/apt-get"});
  if (!missing || !apt) {
    co_return ok();
  }
  log_.add("info", "[base] installing sudo, curl, iproute2, procps and certificates");
  guest::SpawnRequest request{
      .process_id = "tools",
      .argv = {"/bin/sh", "-c",
               "apt-get -o Acquire::Retries=0 -o Acquire::http::Timeout=10 update && "
               "apt-get install -y --no-install-recommends "
               "sudo curl ca-certificates iproute2 procps"},
      .env = {"DEBIAN_FRONTEND=noninteractive"},
      .cwd = "/",
      .timeout_ms = kToolsTimeoutMs};
  auto done =
      co_await run_in_build(cell, std::move(request), "",
                            [this](const guest::Output& output) { log_.output("[base]", output); });
  log_.end_output("[base]");
  if (!done && done.error().reason == "step_failed") {
    tools_failed_ = true;
    log_.add("warn", concat("[base] they could not be installed: ", done.error().message));
  }
  co_return std::move(done);
}

// --- COPY ------------------------------------------------------------------------------------

Task<> BuildSteps::copy(const BuildStep& step) {
  const std::string source = without_pattern(step.arguments[0]);
  const std::string& given = step.arguments[1];
  CopyWork work;
  CO_TRY(work.context, co_await open_context(step.files_hash));
  const bool directory = given.ends_with('/') || given == "." || given.ends_with("/.");
  work.request.sources = {source};
  work.request.destination = absolute(given);
  if (directory && !work.request.destination.ends_with('/')) {
    work.request.destination += '/';
  }
  const std::string mode = step.arguments.size() > 3 ? step.arguments[3] : "";
  CO_TRY(work.changes.mode, parse_mode(mode));
  const oci::BuildContext& context = *work.context;
  CO_TRY(const auto plans,
         co_await factory_.pool().run([&] { return oci::plan_copy(context, work.request); }));
  std::vector<std::string> ingredients{"copy step", work.request.destination, mode,
                                       step.arguments.size() > 2 ? step.arguments[2] : "",
                                       image_.config.user};
  std::vector<std::string> roots;
  for (const oci::CopyPlan& plan : plans.plans) {
    ingredients.push_back(plan.digest);
    roots.push_back(plan.root);
  }
  co_return co_await add_layer(std::move(ingredients),
                               [this, &step, work, roots](const BuildCell& cell) {
                                 return copy_files(cell, step, work, roots);
                               });
}

Task<> BuildSteps::copy_files(const BuildCell& cell, const BuildStep& step, CopyWork work,
                              std::vector<std::string> roots) {
  const std::string owner = step.arguments.size() > 2 && !step.arguments[2].empty()
                                ? step.arguments[2]
                                : image_.config.user;
  const auto colon = owner.find(':');
  const std::string name = owner.substr(0, colon);
  CO_TRY(const AccountFiles files, co_await read_accounts(cell.guest));
  const auto account = find_account(files.passwd, name);
  const auto uid = account ? std::optional{account->uid} : find_id("", name == "root" ? "0" : name);
  auto gid = account ? std::optional{account->gid} : uid;
  if (colon != std::string::npos) {
    gid = find_id(files.group, owner.substr(colon + 1));
  }
  if (!uid || !gid) {
    co_return fail(Code::kInvalidArgument,
                   concat("the image has no user \"", to_valid_utf8(owner), "\" to copy for"));
  }
  work.changes.uid = uid;
  work.changes.gid = gid;
  for (const std::string& root : roots) {
    CO_TRY_DO(co_await make_owned(factory_, cell, root, {name, *uid, *gid, ""}, log_.now()));
  }
  co_return co_await copy_in_build(factory_, cell, std::move(work));
}

// --- WORKDIR, USER ---------------------------------------------------------------------------

Task<> BuildSteps::change_directory(const BuildStep& step) {
  const std::string path = absolute(expand(step.arguments[0]));
  CO_TRY_DO(
      co_await add_layer({"workdir step", path, image_.config.user},
                         [this, path](const BuildCell& cell) { return make_workdir(cell, path); }));
  image_.config.working_dir = path;
  co_return ok();
}

Task<> BuildSteps::make_workdir(const BuildCell& cell, std::string path) {
  CO_TRY(const AccountFiles files, co_await read_accounts(cell.guest));
  const auto account = find_account(files.passwd, image_.config.user);
  co_return co_await make_owned(factory_, cell, std::move(path), account.value_or(Account{}),
                                log_.now());
}

Task<> BuildSteps::change_user(const BuildStep& step) {
  const std::string name = expand(step.arguments[0]);
  CO_TRY_DO(
      co_await add_layer({"user step", name, image_.start.shell},
                         [this, name](const BuildCell& cell) { return make_user(cell, name); }));
  image_.config.user = name;
  co_return ok();
}

Task<> BuildSteps::make_user(const BuildCell& cell, std::string name) {
  CO_TRY_DO(
      co_await ensure_account(factory_, cell, std::move(name), image_.start.shell, log_.now()));
  co_return ok();
}

}  // namespace atl::control
