// XML as a small tree: what S3 answers, read from servers that anybody may run.
//
// Expat reads it; this keeps elements and their text and nothing else. No document type (so no
// entities to expand), a limit on bytes, depth, elements. Attributes and namespaces are dropped: S3
// has no meaning in them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::s3 {

struct XmlElement {
  std::string name;
  std::string text;  // of this element alone, not trimmed
  std::vector<XmlElement> children;

  const XmlElement* find(std::string_view child) const;    // the first, or null
  std::string_view text_of(std::string_view child) const;  // empty when there is none
};

inline constexpr std::size_t kMaxXmlBytes = std::size_t{8} << 20;
inline constexpr std::size_t kMaxXmlDepth = 16;
inline constexpr std::size_t kMaxXmlElements = 100'000;

// kUnavailable: the other side does not speak S3.
Result<XmlElement> parse_xml(std::string_view document);

// "a<b" as text of an element; fails on characters XML cannot carry.
Result<std::string> xml_text(std::string_view text);

}  // namespace atl::s3
