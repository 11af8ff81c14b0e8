// Where an installation keeps things, with owners and modes. All of it is made by the supervisor.
//
//   <data-dir>            root      0711   the installation; its real path names the instance
//     lock                root      0600   locked while it runs; the supervisor's pid, its address
//     admin.key           root      0600
//     secrets.key         root      0600   seals stored credentials; handed to the API at its start
//     pool/               root      0700   layers and uppers
//     cells/              root      0700   the node's records
//     db/                 API user  0700   the database
//   /run/atoll            root      0711
//     uids/               root      0700   which installation has which host ids
//     <instance>/         root      0711   8 hex digits: paths of unix sockets are short
//       node.sock         API user  0600
//       guest/            root:API  0710   guests' sockets, <id>.sock, API user 0600
//       stage/            root      0711   empty mount points of the runtime
//       db/               mount point: <data-dir>/db, whatever the modes on the way to it are
#pragma once

#include <string>

#include "base/error.h"
#include "base/fd.h"
#include "daemon/account.h"

namespace atl::daemon {

struct Layout {
  std::string data_dir;  // real path
  std::string instance;
  std::string run_dir;

  std::string lock_file() const { return data_dir + "/lock"; }
  std::string admin_key() const { return data_dir + "/admin.key"; }
  std::string secrets_key() const { return data_dir + "/secrets.key"; }
  std::string pool_dir() const { return data_dir + "/pool"; }
  std::string cells_dir() const { return data_dir + "/cells"; }
  std::string db_dir() const { return data_dir + "/db"; }
  std::string node_socket() const { return run_dir + "/node.sock"; }
  std::string guest_dir() const { return run_dir + "/guest"; }
  std::string stage_dir() const { return run_dir + "/stage"; }
  std::string db_mount() const { return run_dir + "/db"; }
};

inline constexpr const char* kRunRoot = "/run/atoll";
inline constexpr const char* kUidClaims = "/run/atoll/uids";

// Makes the data directory when there is none. Refuses one that holds other things.
Result<Layout> open_layout(const std::string& data_dir);
// Says who runs here when somebody does. The lock lives as long as the descriptor and its copies.
// `address` is where the API shall listen, for running_address().
Result<Fd> lock_layout(const Layout& layout, std::string_view address);
// The address of the server that runs on this directory now; kNotFound when none does.
Result<std::string> running_address(const std::string& data_dir);
// REQUIRES: the lock.
Result<> prepare_directories(const Layout& layout, const Account& account);
// Shows <data-dir>/db at run_dir/db in this mount namespace only.
Result<> mount_database_dir(const Layout& layout);
// After a clean stop.
void remove_run_dir(const Layout& layout);

}  // namespace atl::daemon
