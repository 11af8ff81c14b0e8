#include "service/e2b/envd/file_metadata.h"

#include <algorithm>

#include "base/strings.h"
#include "service/e2b/envd/entry_text.h"

namespace atl::service::e2b::envd {

Result<std::vector<guest::Attribute>> read_metadata(const http::Headers& headers) {
  constexpr std::string_view kPrefix = "x-metadata-";
  std::vector<guest::Attribute> attributes;
  std::size_t bytes = 0;
  for (const auto& [name, value] : headers.lines()) {
    const std::string lower = to_lower(name);
    if (!lower.starts_with(kPrefix)) {
      continue;
    }
    const std::string key = lower.substr(kPrefix.size());
    if (key.empty() || key.size() > kMaxMetadataKeyBytes) {
      return fail(Code::kInvalidArgument,
                  concat("a metadata key has 1 to ", kMaxMetadataKeyBytes, " bytes"));
    }
    if (!std::ranges::all_of(value, [](char c) { return c >= ' ' && c <= '~'; })) {
      return fail(Code::kInvalidArgument, concat("the metadata value of '", key,
                                                 "' has characters that are not printable"));
    }
    bytes += key.size() + value.size();
    std::string attribute = concat(kMetadataPrefix, key);
    std::erase_if(attributes, [&](const auto& each) { return each.name == attribute; });
    attributes.push_back({std::move(attribute), value});
  }
  if (bytes > kMaxMetadataBytes || attributes.size() > guest::kMaxAttributes) {
    return fail(Code::kInvalidArgument,
                concat("metadata has more than ", kMaxMetadataBytes, " bytes"));
  }
  return attributes;
}

}  // namespace atl::service::e2b::envd
