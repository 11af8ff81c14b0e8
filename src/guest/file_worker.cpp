#include "guest/file_worker.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "guest/file_channel.h"
#include "guest/files.h"
#include "guest/identity.h"
#include "guest/spawn.h"
#include "guest/trust.h"

namespace atl::guest {
namespace {

constexpr int kSocketFd = 3;

Result<Identity> become(const std::string& user) {
  if (user.starts_with(kOwnerPrefix)) {
    TRY(auto owner, find_owner(std::string_view{user}.substr(kOwnerPrefix.size())));
    TRY_DO(act_for_owner(owner));
    return owner;
  }
  TRY(auto identity, find_identity(user));
  TRY_DO(assume_identity(identity));
  return identity;
}

template <class Request>
void expand_paths(Request& request, const Identity& identity) {
  request.path = expand_home(request.path, identity);
}
void expand_paths(MoveRequest& request, const Identity& identity) {
  request.source = expand_home(request.source, identity);
  request.destination = expand_home(request.destination, identity);
}

template <class Request>
Result<> serve(FileChannel& channel, Result<Request> request,
               Result<> (*operation)(FileChannel&, const Request&)) {
  TRY_DO(request);
  TRY(const auto identity, become(request->user));
  expand_paths(*request, identity);
  TRY_DO(operation(channel, *request));
  return {};
}

Result<> dispatch(FileChannel& channel, Kind kind, std::string_view payload) {
  switch (kind) {
    case Kind::kStat:
      return serve(channel, decode_path(payload), stat_file);
    case Kind::kListDirectory:
      return serve(channel, decode_path(payload), list_directory);
    case Kind::kReadFile:
      return serve(channel, decode_read_file(payload), read_file);
    case Kind::kWriteFile:
      return serve(channel, decode_write_file(payload), write_file);
    case Kind::kMakeDirectory:
      return serve(channel, decode_make_directory(payload), make_directory);
    case Kind::kMove:
      return serve(channel, decode_move(payload), move_path);
    case Kind::kRemove:
      return serve(channel, decode_remove(payload), remove_path);
    case Kind::kChangeMode:
      return serve(channel, decode_change_mode(payload), change_mode);
    case Kind::kWatch:
      return serve(channel, decode_watch(payload), watch_files);
    case Kind::kReadTree:
      return serve(channel, decode_path(payload), read_tree);
    case Kind::kWriteTree:
      return serve(channel, decode_path(payload), write_tree);
    case Kind::kSearch:
      return serve(channel, decode_search(payload), search_files);
    case Kind::kSyncFile:
      return serve(channel, decode_sync_file(payload), sync_file);
    case Kind::kDiff: {
      TRY(const auto request, decode_diff(payload));  // of root, always: nobody else may see it all
      return send_diff(channel, request);
    }
    case Kind::kInstallTrust: {
      TRY(const auto request, decode_trust(payload));  // as root: the stores are the system's
      return install_trust(channel, request);
    }
    default:
      return fail(Code::kInvalidArgument, "not a file request", "malformed");
  }
}

}  // namespace

bool is_file_request(Kind kind) {
  return (kind >= Kind::kStat && kind <= Kind::kDiff) || kind == Kind::kInstallTrust;
}

void run_file_worker(int socket, Kind kind, std::string_view payload,
                     std::string_view early_input) {
  if (socket != kSocketFd && ::dup2(socket, kSocketFd) < 0) {
    ::_exit(1);
  }
  close_from(kSocketFd + 1);
  raise_oom_score();
  ::umask(0);  // modes are what the request says
  if (::chdir("/") != 0 || !set_nonblocking(kSocketFd, false)) {
    ::_exit(1);
  }
  {
    FileChannel channel{Fd{kSocketFd}, early_input};
    if (auto served = dispatch(channel, kind, payload); !served) {
      if (channel.send(Kind::kError, encode(served.error())) && channel.flush() &&
          (kind == Kind::kWriteFile || kind == Kind::kWriteTree)) {
        channel.discard_upload();
      }
    } else {
      (void)channel.flush();
    }
  }
  ::_exit(0);
}

}  // namespace atl::guest
