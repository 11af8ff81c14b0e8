// The part of the node protocol that is about volumes. Private to node's protocol.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "node/protocol.h"

namespace atl::node::volumes {

void write_mounts(ByteWriter& out, const std::vector<Mount>& mounts);
std::vector<Mount> read_mounts(ByteReader& in);
Result<> check(const VolumeRequest& request);
// The fields of a request about volumes. False: it is none.
bool read(ByteReader& in, DecodedRequest& request);

}  // namespace atl::node::volumes
