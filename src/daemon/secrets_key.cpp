#include "daemon/secrets_key.h"

#include <unistd.h>

#include "base/fd.h"
#include "base/strings.h"
#include "daemon/admin_key.h"
#include "secrets/keyring.h"

namespace atl::daemon {
namespace {

Result<std::string> load(const std::string& path) {
  TRY_DO(check_private_file(path));
  TRY(std::string text, read_file(path, secrets::kMaxKeyFileBytes));
  if (auto keyring = secrets::Keyring::parse(text); !keyring) {
    secrets::wipe(text);
    return fail(std::move(keyring.error()).note(path));
  }
  return text;
}

}  // namespace

Result<std::string> load_or_make_secrets_key(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) {
    std::string line = secrets::Keyring::make_key_line();
    auto made = replace_file(path, line, {.mode = 0600, .durable = true});
    secrets::wipe(line);
    TRY_DO(std::move(made));
  }
  return load(path);
}

Result<std::string> load_given_secrets_key(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) {
    return fail(Code::kNotFound, concat("--secrets-key ", path,
                                        " does not exist; make it with: (umask 077; openssl rand "
                                        "-hex 32 > ",
                                        path, ")"));
  }
  return load(path);
}

}  // namespace atl::daemon
