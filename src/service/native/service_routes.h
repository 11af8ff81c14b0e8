// Services of a sandbox and private previews of its ports.
#pragma once

#include "control/previews.h"
#include "control/public_names.h"
#include "control/services.h"
#include "service/native/routes.h"

namespace atl::service::native {

// What can be seen from outside. Outlives the routes.
struct Published {
  control::Services& services;
  control::Previews& previews;
  control::PublicNames names;

  // The services of a sandbox as its owner sees them; in brief without what they run: that may be
  // megabytes, and secrets.
  enum class Detail : std::uint8_t { kBrief, kWhole };
  Json services_json(std::string_view sandbox_id, Detail detail = Detail::kWhole) const;
};

class ServiceRoutes {
 public:
  // Null: this server has none, and no routes for them.
  explicit ServiceRoutes(const Published* published) : published_(published) {}
  void add_to(RouteTable& table);

 private:
  Task<> list(NativeExchange& exchange, std::string id);
  Task<> replace(NativeExchange& exchange, std::string id);
  Task<> create_preview(NativeExchange& exchange, std::string id);
  Task<> renew_preview(NativeExchange& exchange, std::string id, std::string preview_id);
  Task<> revoke_preview(NativeExchange& exchange, std::string id, std::string preview_id);
  Json list_json(const std::string& id) const;
  Json preview_json(const control::Preview& preview, std::string_view link_secret) const;

  const Published* published_;
};

}  // namespace atl::service::native
