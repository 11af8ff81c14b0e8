// Files of a sandbox: contents, names, watches, archives and searches.
//
// One group of routes in several files: file_download reads, file_routes does the rest with one
// file, file_watch_socket tells changes, file_archive_routes has whole trees as tar,
// file_search_routes glob and grep.
#pragma once

#include "control/tree_archives.h"
#include "service/native/file_target.h"
#include "service/native/routes.h"

namespace atl::service::native {

class FileRoutes {
 public:
  // Without archives there are no archive routes.
  FileRoutes(control::Contexts& contexts, const control::Sandboxes& sandboxes,
             control::TreeArchives* archives)
      : contexts_(contexts), sandboxes_(sandboxes), archives_(archives) {}
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
  Task<> download_archive(NativeExchange& exchange, control::SandboxRef sandbox);
  Task<> upload_archive(NativeExchange& exchange, control::SandboxRef sandbox);
  Task<> glob(NativeExchange& exchange, control::SandboxRef sandbox);
  Task<> grep(NativeExchange& exchange, control::SandboxRef sandbox);

  control::Contexts& contexts_;
  const control::Sandboxes& sandboxes_;
  control::TreeArchives* archives_;
};

}  // namespace atl::service::native
