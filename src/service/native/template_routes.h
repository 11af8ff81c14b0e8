// Templates: list, get, create, update, delete as in the contract; build, import, pull and logs are
// ours and answer with a stream of NDJSON records that ends with "done" or "error".
#pragma once

#include "control/template_jobs.h"
#include "service/native/routes.h"

namespace atl::service::native {

class TemplateRoutes {
 public:
  // Without jobs the templates can only be read.
  TemplateRoutes(const control::Sandboxes& sandboxes, control::TemplateJobs* jobs,
                 Idempotency& idempotency, control::Contexts& contexts)
      : sandboxes_(sandboxes), jobs_(jobs), idempotency_(idempotency), contexts_(contexts) {}
  void add_to(RouteTable& table);

 private:
  Task<> list(NativeExchange& exchange);
  Task<> get(NativeExchange& exchange, std::string id);
  Task<> create(NativeExchange& exchange);
  Task<> import_snapshot(NativeExchange& exchange);
  Task<> create_from(NativeExchange& exchange, control::StateRef::Kind kind);
  Task<> update(NativeExchange& exchange, std::string id);
  Task<> remove(NativeExchange& exchange, std::string id);
  Task<> pull(NativeExchange& exchange, std::string id);
  Task<> build(NativeExchange& exchange, std::string id);
  Task<> import(NativeExchange& exchange, std::string id);
  Task<> logs(NativeExchange& exchange, std::string id);

  Json template_json(const control::Template& value) const;
  Result<control::Template> visible(const NativeExchange& exchange, std::string_view id) const;
  Task<control::UploadPointer> receive_upload(NativeExchange& exchange);
  // The log of a job, to its end. `owner`: the job ends when the client leaves.
  Task<> follow(NativeExchange& exchange, std::string id, std::shared_ptr<control::BuildLog> log,
                bool owner);

  const control::Sandboxes& sandboxes_;
  control::TemplateJobs* jobs_;
  Idempotency& idempotency_;
  control::Contexts& contexts_;
};

}  // namespace atl::service::native
