#include "proxy/instruments.h"

namespace atl::proxy {

Instruments::Instruments(Metrics& metrics)
    : sandboxes(metrics.gauge("atoll_proxy_sandboxes", "Sandboxes whose traffic is served.")),
      connections(metrics.gauge("atoll_proxy_connections", "Connections of sandboxes, now.")),
      allowed(metrics.counter("atoll_proxy_flows_total", "Flows that have ended.",
                              R"(outcome="allowed")")),
      denied(metrics.counter("atoll_proxy_flows_total", "", R"(outcome="denied")")),
      failed(metrics.counter("atoll_proxy_flows_total", "", R"(outcome="failed")")),
      cut(metrics.counter("atoll_proxy_flows_cut_total", "Open flows that new rules closed.")),
      bytes_out(metrics.counter("atoll_proxy_bytes_total", "Bytes of ended flows.",
                                R"(direction="out")")),
      bytes_in(metrics.counter("atoll_proxy_bytes_total", "", R"(direction="in")")),
      dns_answered(metrics.counter("atoll_proxy_dns_questions_total", "DNS questions of sandboxes.",
                                   R"(outcome="answered")")),
      dns_refused(metrics.counter("atoll_proxy_dns_questions_total", "", R"(outcome="refused")")),
      dns_upstream(metrics.counter("atoll_proxy_dns_upstream_questions_total",
                                   "DNS questions sent to the upstream resolvers.")),
      datagrams_out(metrics.counter("atoll_proxy_datagrams_total", "Datagrams of sandboxes.",
                                    R"(direction="out")")),
      datagrams_in(metrics.counter("atoll_proxy_datagrams_total", "", R"(direction="in")")),
      datagrams_dropped(
          metrics.counter("atoll_proxy_datagrams_total", "", R"(direction="dropped")")) {}

void Instruments::count(const egress::FlowRecord& record) {
  switch (record.outcome) {
    case egress::Outcome::kDenied:
      denied.add();
      break;
    case egress::Outcome::kFailed:
      failed.add();
      break;
    default:
      allowed.add();
      break;
  }
  bytes_out.add(record.bytes_out);
  bytes_in.add(record.bytes_in);
}

}  // namespace atl::proxy
