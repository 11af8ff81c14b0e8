// What the proxy counts.
#pragma once

#include "base/metrics.h"
#include "egress/boundary.h"

namespace atl::proxy {

struct Instruments {
  explicit Instruments(Metrics& metrics);
  void count(const egress::FlowRecord& record);

  Gauge& sandboxes;
  Gauge& connections;
  Counter& allowed;
  Counter& denied;
  Counter& failed;
  Counter& cut;
  Counter& bytes_out;
  Counter& bytes_in;
  Counter& dns_answered;
  Counter& dns_refused;
  Counter& dns_upstream;
  Counter& datagrams_out;
  Counter& datagrams_in;
  Counter& datagrams_dropped;
};

}  // namespace atl::proxy
