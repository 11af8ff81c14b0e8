// Flows, bytes and questions as JSON.
#include "base/strings.h"
#include "service/native/envelope.h"
#include "service/native/flow_routes.h"

namespace atl::service::native {

Json flow_json(const control::KeptFlow& flow) {
  const egress::FlowRecord& record = flow.record;
  Json operations = Json::array();
  for (const auto& operation : record.operations) {
    operations.push(to_valid_utf8(operation));
  }
  Json json =
      Json::object({{"id", record.id},
                    {"sandbox_id", record.sandbox_id},
                    {"began_at", rfc3339(record.began_at)},
                    {"duration_ms", record.duration_ms},
                    {"kind", record.kind},
                    {"transport", record.transport == egress::Transport::kUdp ? "udp" : "tcp"},
                    {"protocol", app_protocol_name(record.protocol)},
                    {"source", record.source},
                    {"destination", record.destination},
                    {"dialled", record.dialled},
                    {"name", record.name},
                    {"outcome", control::outcome_name(record.outcome)},
                    {"origin", record.origin},
                    {"rule", record.rule},
                    {"reason", record.reason},
                    {"intercepted", record.intercepted},
                    {"credential", record.credential},
                    {"operations", std::move(operations)},
                    {"operations_left_out", record.operations_left_out},
                    {"bytes_out", record.bytes_out},
                    {"bytes_in", record.bytes_in},
                    {"cursor", std::to_string(flow.revision)}});
  if (record.opener.pid != 0) {
    json.set("process", Json::object({{"pid", record.opener.pid},
                                      {"program", record.opener.program},
                                      {"context_id", record.opener.context_id}}));
  }
  return json;
}

Json traffic_json(const control::Traffic& traffic) {
  return Json::object({{"bytes_out", traffic.bytes_out},
                       {"bytes_in", traffic.bytes_in},
                       {"flows", traffic.flows},
                       {"denied", traffic.denied}});
}

}  // namespace atl::service::native
