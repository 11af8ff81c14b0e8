// Files of sandboxes and of volumes: contents, names, watches, archives and searches.
//
// The routes are the same for both; what differs is where the files are (control/files.h), whose
// rights count, and that a volume's are durable before a change is acknowledged.
//
// One group of routes in several files: file_download reads, file_routes does the rest with one
// file, file_watch_socket tells changes, file_archive_routes has whole trees as tar,
// file_search_routes glob and grep.
#pragma once

#include "control/files.h"
#include "control/tree_archives.h"
#include "service/native/file_target.h"
#include "service/native/routes.h"

namespace atl::service::native {

class FileRoutes {
 public:
  struct Where {
    std::string_view prefix;  // up to and with "/files"
    control::Permission read;
    control::Permission write;
  };
  // Without archives there are no archive routes.
  FileRoutes(Where where, control::FilePlaces& places, control::TreeArchives* archives)
      : where_(where), places_(places), archives_(archives) {}
  void add_to(RouteTable& table);

 private:
  Task<> read(NativeExchange& exchange, control::PlaceRef place);
  Task<> write(NativeExchange& exchange, control::PlaceRef place);
  Task<> remove(NativeExchange& exchange, control::PlaceRef place);
  Task<> stat(NativeExchange& exchange, control::PlaceRef place);
  Task<> list(NativeExchange& exchange, control::PlaceRef place);
  Task<> move(NativeExchange& exchange, control::PlaceRef place);
  Task<> change_mode(NativeExchange& exchange, control::PlaceRef place);
  Task<> watch(NativeExchange& exchange, control::PlaceRef place);
  Task<> watch_lines(NativeExchange& exchange, control::PlaceRef place);
  Task<> download_archive(NativeExchange& exchange, control::PlaceRef place);
  Task<> upload_archive(NativeExchange& exchange, control::PlaceRef place);
  Task<> glob(NativeExchange& exchange, control::PlaceRef place);
  Task<> grep(NativeExchange& exchange, control::PlaceRef place);

  Where where_;
  control::FilePlaces& places_;
  control::TreeArchives* archives_;
};

}  // namespace atl::service::native
