// process.Process: commands and terminals of a sandbox, over control's contexts.
//
// A process is a context that the guest forgets some time after its end. What E2B knows about one
// and a context does not (its tag, its own environment) is in the context's label. Contexts of
// other dialects are listed too; the interpreters among them are not.
#pragma once

#include <map>
#include <string>

#include "control/contexts.h"
#include "service/e2b/envd/connect.h"
#include "service/e2b/envd/markers.h"

namespace atl::service::e2b::envd {

class ProcessService {
 public:
  ProcessService(control::Contexts& contexts, control::FilePlaces& places)
      : contexts_(contexts), markers_(places) {}

  // `method` is the last part of the path. Nothing of it fails: errors are answers.
  Task<> serve(E2bExchange& exchange, const SandboxTarget& target, CallFormat format,
               std::string method);

 private:
  using Unary = Task<Json> (ProcessService::*)(Caller, Json);
  struct UnaryMethod {
    std::string_view name;
    const Message* request;
    const Message* response;
    Unary handler;
  };
  static const UnaryMethod kUnaryMethods[];

  Task<> start(E2bExchange& exchange, const SandboxTarget& target, Caller caller, Json request,
               Codec codec);
  Task<> run(E2bExchange& exchange, control::ContextRequest request, Caller caller, std::string cwd,
             Codec codec);
  Task<> connect(E2bExchange& exchange, Caller caller, Json request, Codec codec);
  Task<> stream_input(E2bExchange& exchange, Caller caller, CallFormat format);
  Task<> feed_from(E2bExchange& exchange, Caller caller, CallFormat format);
  Task<Json> list(Caller caller, Json request);
  Task<Json> update(Caller caller, Json request);
  Task<Json> send_input(Caller caller, Json request);
  Task<> feed(const Caller& caller, const guest::ProcessInfo& process, Json input);
  Task<Json> send_signal(Caller caller, Json request);
  Task<Json> close_stdin(Caller caller, Json request);

  // The newest process that the selector in `request` means; `ended` ones count too.
  Task<guest::ProcessInfo> select(control::SandboxRef sandbox, Json selector, bool ended);
  Result<control::ContextRequest> plan(const SandboxTarget& target, const Caller& caller,
                                       const Json& request) const;

  control::Contexts& contexts_;
  Markers markers_;
  // The ids of processes that were found by number, so that not every key somebody types lists all
  // there are. Only a guess where to look: the guest says what the process is.
  std::map<std::string, std::string, std::less<>> found_;  // by context_key() with the number
};

}  // namespace atl::service::e2b::envd
