// filesystem.Filesystem: names and descriptions of files, and watches, over control's files.
//
// As in E2B the user of a call says whose home "~" is and who owns what is made, not what is
// allowed: the calls have root's rights in the sandbox ("owner:user" of the guest protocol).
#pragma once

#include "control/files.h"
#include "control/polled_watches.h"
#include "service/e2b/envd/connect.h"

namespace atl::service::e2b::envd {

// The user of file requests for this caller.
std::string acting_user(std::string_view user);
// What the guest says about files, in E2B's words.
Error file_call_error(Error error, std::string_view user, std::string_view path);

class FilesystemService {
 public:
  FilesystemService(control::FilePlaces& places, control::PolledWatches& watches)
      : places_(places), watches_(watches) {}

  // As ProcessService::serve.
  Task<> serve(E2bExchange& exchange, const SandboxTarget& target, CallFormat format,
               std::string method);

 private:
  using Unary = Task<Json> (FilesystemService::*)(Caller, Json);
  struct UnaryMethod {
    std::string_view name;
    const Message* request;
    const Message* response;
    Unary handler;
  };
  static const UnaryMethod kUnaryMethods[];
  struct Watched {
    std::unique_ptr<control::Files> files;
    std::unique_ptr<control::FileWatch> watch;
    std::string root;
    std::string user;
  };

  Task<Json> stat(Caller caller, Json request);
  Task<Json> make_directory(Caller caller, Json request);
  Task<Json> move(Caller caller, Json request);
  Task<Json> remove(Caller caller, Json request);
  Task<Json> create_watcher(Caller caller, Json request);
  Task<Json> watcher_events(Caller caller, Json request);
  Task<Json> remove_watcher(Caller caller, Json request);
  Task<> list(E2bExchange& exchange, Caller caller, Json request, CallFormat format);
  Task<> watch(E2bExchange& exchange, Caller caller, Json request, Codec codec);

  Task<std::unique_ptr<control::Files>> open(const Caller& caller);
  Task<guest::FileInfo> describe(control::Files& files, const Caller& caller, std::string path);
  Task<Watched> begin_watch(Caller caller, Json request);
  std::string directory(const Caller& caller) const;
  // The path in a member of the request, for the guest.
  std::string path_of(const Caller& caller, const Json& request, std::string_view name) const;

  control::FilePlaces& places_;
  control::PolledWatches& watches_;
};

}  // namespace atl::service::e2b::envd
