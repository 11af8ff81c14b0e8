// Files of a sandbox: contents, names and watches.
#pragma once

#include "service/native/file_target.h"
#include "service/native/routes.h"

namespace atl::service::native {

class FileRoutes {
 public:
  explicit FileRoutes(control::Contexts& contexts) : contexts_(contexts) {}
  void add_to(RouteTable& table);

 private:
  Task<> read(NativeExchange& exchange, control::SandboxRef sandbox);
  Task<> write(NativeExchange& exchange, control::SandboxRef sandbox);
  Task<> remove(NativeExchange& exchange, control::SandboxRef sandbox);
  Task<> stat(NativeExchange& exchange, control::SandboxRef sandbox);
  Task<> list(NativeExchange& exchange, control::SandboxRef sandbox);
  Task<> move(NativeExchange& exchange, control::SandboxRef sandbox);
  Task<> change_mode(NativeExchange& exchange, control::SandboxRef sandbox);
  Task<> watch(NativeExchange& exchange, control::SandboxRef sandbox);
  Task<> watch_lines(NativeExchange& exchange, control::SandboxRef sandbox);

  control::Contexts& contexts_;
};

}  // namespace atl::service::native
