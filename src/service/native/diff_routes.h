// What changed in a sandbox or a snapshot, and both as images.
#pragma once

#include "control/diffs.h"
#include "service/native/routes.h"

namespace atl::service::native {

class DiffRoutes {
 public:
  // Without `diffs` there are no such routes.
  explicit DiffRoutes(control::Diffs* diffs) : diffs_(diffs) {}
  void add_to(RouteTable& table);

 private:
  Task<> diff(NativeExchange& exchange, control::StateRef subject);
  Task<> answer_list(NativeExchange& exchange, control::DiffQuery query);
  Task<> stream_list(NativeExchange& exchange, control::DiffQuery query);
  Task<> stream_archive(NativeExchange& exchange, control::DiffQuery query,
                        oci::ArchiveFormat format);
  Task<> export_image(NativeExchange& exchange, control::StateRef subject);

  control::Diffs* diffs_;
};

}  // namespace atl::service::native
