// The contract and what is made of it: /openapi.json, /docs, /llms.txt, /llms-full.txt. Public.
//
// api/render writes them from api/openapi.yaml when the server is built; here they are constants.
#pragma once

#include <span>
#include <string_view>

#include "service/native/routes.h"

namespace atl::service::native {

struct ContractPage {
  std::string_view path;
  std::string_view content_type;
  std::string_view etag;             // quoted, of the content
  std::string_view security_policy;  // Content-Security-Policy; empty: none
  std::string_view content;
};
// Generated.
std::span<const ContractPage> contract_pages();

void add_contract_routes(RouteTable& table);

}  // namespace atl::service::native
