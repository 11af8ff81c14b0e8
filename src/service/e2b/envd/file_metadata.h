// Metadata that an upload gives to its files: headers X-Metadata-<key>, kept as extended
// attributes.
#pragma once

#include <vector>

#include "guest/wire.h"
#include "http/message.h"

namespace atl::service::e2b::envd {

inline constexpr std::size_t kMaxMetadataKeyBytes = 246;
inline constexpr std::size_t kMaxMetadataBytes = 4096;  // keys and values together

// kInvalidArgument for what is no printable ASCII, or too much.
Result<std::vector<guest::Attribute>> read_metadata(const http::Headers& headers);

}  // namespace atl::service::e2b::envd
