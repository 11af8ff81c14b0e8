#include "control/accounts.h"

#include <algorithm>
#include <set>

#include "base/strings.h"

namespace atl::control {
namespace {

constexpr std::uint32_t kFirstId = 1000;
constexpr std::uint32_t kLastId = 60000;  // of those for people
constexpr std::uint32_t kMaxId = 65535;   // that a sandbox has
constexpr std::size_t kMaxNameBytes = 32;

std::optional<std::uint32_t> parse_id(std::string_view text) {
  const auto number = parse_u64(text);
  return number && *number <= kMaxId ? std::optional{static_cast<std::uint32_t>(*number)}
                                     : std::nullopt;
}

bool is_account_name(std::string_view name) {
  const auto small = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return !name.empty() && name.size() <= kMaxNameBytes && small(name.front()) &&
         std::ranges::all_of(
             name, [&](char c) { return small(c) || (c >= '0' && c <= '9') || c == '-'; });
}

void collect_ids(std::string_view text, std::set<std::uint32_t>& ids) {
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = split(line, ':');
    if (const auto id = fields.size() >= 3 ? parse_id(fields[2]) : std::nullopt) {
      ids.insert(*id);
    }
  }
}

void append_line(std::string& text, std::string line) {
  if (!text.empty() && !text.ends_with('\n')) {
    text += '\n';
  }
  text += line;
  text += '\n';
}

}  // namespace

std::optional<Account> find_account(std::string_view passwd, std::string_view name) {
  for (const std::string_view line : split(passwd, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() < 6 || (fields[0] != name && fields[2] != name)) {
      continue;
    }
    const auto uid = parse_id(fields[2]);
    const auto gid = parse_id(fields[3]);
    if (uid && gid) {
      return Account{std::string{fields[0]}, *uid, *gid, std::string{fields[5]}};
    }
  }
  return std::nullopt;
}

std::optional<std::uint32_t> find_id(std::string_view text, std::string_view name) {
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() >= 3 && fields[0] == name) {
      return parse_id(fields[2]);
    }
  }
  return parse_id(name);
}

Result<Account> add_account(AccountFiles& files, std::string_view name, std::string_view shell) {
  if (!is_account_name(name)) {
    return fail(Code::kInvalidArgument,
                concat("\"", to_valid_utf8(name), "\" is no name for a user; use 1 to ",
                       kMaxNameBytes, " of a-z, 0-9, '_' and '-', beginning with a letter"));
  }
  std::set<std::uint32_t> taken;
  collect_ids(files.passwd, taken);
  collect_ids(files.group, taken);
  std::uint32_t id = kFirstId;
  while (id <= kLastId && taken.contains(id)) {
    ++id;
  }
  if (id > kLastId) {
    return fail(Code::kResourceExhausted, "the image has no number left for a user");
  }
  Account account{std::string{name}, id, id, concat("/home/", name)};
  if (const auto group = find_id(files.group, name)) {
    account.gid = *group;
  } else {
    append_line(files.group, concat(name, ":x:", id, ":"));
  }
  append_line(files.passwd,
              concat(name, ":x:", id, ":", account.gid, "::", account.home, ":", shell));
  return account;
}

}  // namespace atl::control
