// The contents of volumes, for whoever has a volume's token (volume_token.h): directories, entries
// and files, streamed. Durable before a change is acknowledged.
#pragma once

#include "control/volumes.h"
#include "service/e2b/e2b_routes.h"
#include "service/e2b/sandboxes/sandbox_view.h"

namespace atl::service::e2b {

class VolumeContentRoutes {
 public:
  // All outlive this.
  VolumeContentRoutes(SandboxParts parts, control::Volumes& volumes)
      : parts_(parts), volumes_(volumes) {}
  void add_to(E2bRoutes& routes);

 private:
  // The volume of a request whose token is right, and the path in it.
  struct Place {
    control::PlaceRef ref;
    std::string user;
    std::string path;
  };
  Result<Place> find_place(const E2bExchange& exchange, const std::string& volume_id) const;
  Task<> list(E2bExchange& exchange, std::string id);
  Task<> make_directory(E2bExchange& exchange, std::string id);
  Task<> stat(E2bExchange& exchange, std::string id);
  Task<> update(E2bExchange& exchange, std::string id);
  Task<> remove(E2bExchange& exchange, std::string id);
  Task<> read(E2bExchange& exchange, std::string id);
  Task<> write(E2bExchange& exchange, std::string id);

  SandboxParts parts_;
  control::Volumes& volumes_;
};

}  // namespace atl::service::e2b
