#include "s3/xml.h"

#include <expat.h>

#include <algorithm>
#include <memory>

#include "base/strings.h"

namespace atl::s3 {
namespace {

// The element that is open now is the last of the path; the document stands above the root.
struct Builder {
  XML_Parser parser = nullptr;
  XmlElement document;
  std::vector<XmlElement*> path;
  std::size_t elements = 0;
  bool refused = false;

  void refuse() {
    refused = true;
    ::XML_StopParser(parser, XML_FALSE);
  }
};

Builder& builder_of(void* data) {
  return *static_cast<Builder*>(data);
}

void on_start(void* data, const char* name, const char** /*attributes*/) {
  Builder& builder = builder_of(data);
  if (builder.path.size() > kMaxXmlDepth || ++builder.elements > kMaxXmlElements) {
    builder.refuse();
    return;
  }
  // A parent's vector grows only while no pointer into it is on the path.
  auto& child = builder.path.back()->children.emplace_back();
  const std::string_view full = name;
  child.name = full.substr(full.find(':') + 1);
  builder.path.push_back(&child);
}

void on_end(void* data, const char* /*name*/) {
  builder_of(data).path.pop_back();
}

void on_text(void* data, const char* text, int size) {
  builder_of(data).path.back()->text.append(text, static_cast<std::size_t>(size));
}

void on_doctype(void* data, const char*, const char*, const char*, int) {
  builder_of(data).refuse();
}

}  // namespace

const XmlElement* XmlElement::find(std::string_view child) const {
  const auto found = std::ranges::find(children, child, &XmlElement::name);
  return found == children.end() ? nullptr : &*found;
}

std::string_view XmlElement::text_of(std::string_view child) const {
  const XmlElement* found = find(child);
  return found == nullptr ? std::string_view{} : std::string_view{found->text};
}

Result<XmlElement> parse_xml(std::string_view document) {
  Builder builder;
  const std::unique_ptr<XML_ParserStruct, decltype(&::XML_ParserFree)> parser{
      ::XML_ParserCreate("UTF-8"), &::XML_ParserFree};
  CHECK(parser != nullptr);
  builder.parser = parser.get();
  builder.path.push_back(&builder.document);
  ::XML_SetUserData(parser.get(), &builder);
  ::XML_SetElementHandler(parser.get(), on_start, on_end);
  ::XML_SetCharacterDataHandler(parser.get(), on_text);
  ::XML_SetStartDoctypeDeclHandler(parser.get(), on_doctype);
  const bool parsed = document.size() <= kMaxXmlBytes &&
                      ::XML_Parse(parser.get(), document.data(), static_cast<int>(document.size()),
                                  1) == XML_STATUS_OK;
  if (!parsed || builder.refused || builder.document.children.size() != 1) {
    return fail(Code::kUnavailable,
                "the bucket's server answered with something that is not S3's XML");
  }
  XmlElement root = std::move(builder.document.children.front());
  return root;
}

Result<std::string> xml_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 && c != '\t' && c != '\n') {
      return fail(Code::kInvalidArgument, "a name has control characters that XML cannot carry");
    }
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\t':
        out += "&#9;";
        break;
      case '\n':
        out += "&#10;";
        break;
      default:
        out += c;
    }
  }
  if (!is_utf8(text)) {
    return fail(Code::kInvalidArgument, "a name is not UTF-8");
  }
  return out;
}

}  // namespace atl::s3
