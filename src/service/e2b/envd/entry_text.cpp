#include "service/e2b/envd/entry_text.h"

#include "base/strings.h"
#include "service/e2b/envd/sandbox_path.h"

namespace atl::service::e2b::envd {
namespace {

using guest::FileEventType;
using guest::FileType;

std::string_view type_name(FileType type) {
  switch (type) {
    case FileType::kFile:
      return "FILE_TYPE_FILE";
    case FileType::kDirectory:
      return "FILE_TYPE_DIRECTORY";
    case FileType::kSymlink:
      return "FILE_TYPE_SYMLINK";
    default:
      return "FILE_TYPE_UNSPECIFIED";
  }
}

std::string_view event_name(FileEventType type) {
  switch (type) {
    case FileEventType::kCreate:
      return "EVENT_TYPE_CREATE";
    case FileEventType::kWrite:
      return "EVENT_TYPE_WRITE";
    case FileEventType::kRemove:
      return "EVENT_TYPE_REMOVE";
    case FileEventType::kRename:
      return "EVENT_TYPE_RENAME";
    case FileEventType::kChmod:
      return "EVENT_TYPE_CHMOD";
    case FileEventType::kOverflow:
      break;
  }
  return "EVENT_TYPE_UNSPECIFIED";
}

}  // namespace

std::string permissions_text(FileType type, std::uint32_t mode) {
  std::string text;
  switch (type) {
    case FileType::kDirectory:
      text += 'd';
      break;
    case FileType::kSymlink:
      text += 'L';
      break;
    case FileType::kFile:
      break;
    default:
      text += '?';
  }
  text += (mode & 04000U) != 0 ? "u" : "";
  text += (mode & 02000U) != 0 ? "g" : "";
  text += (mode & 01000U) != 0 ? "t" : "";
  if (text.empty()) {
    text = "-";
  }
  constexpr std::string_view kLetters = "rwxrwxrwx";
  for (std::size_t i = 0; i < kLetters.size(); ++i) {
    text += ((mode >> (8U - i)) & 1U) != 0 ? kLetters[i] : '-';
  }
  return text;
}

Json metadata_json(const std::vector<guest::Attribute>& attributes) {
  Json metadata = Json::object();
  for (const auto& [name, value] : attributes) {
    if (name.starts_with(kMetadataPrefix) && name.size() > kMetadataPrefix.size()) {
      metadata.set(to_valid_utf8(name.substr(kMetadataPrefix.size())), to_valid_utf8(value));
    }
  }
  return metadata;
}

Json entry_json(const guest::FileInfo& info) {
  const bool link = info.type == FileType::kSymlink;
  const guest::FileDetails details = info.details.value_or(guest::FileDetails{});
  // One that leads nowhere is at least a link: clients leave out what has no type.
  const bool leads = link && !details.resolved_path.empty();
  Json entry = Json::object({{"name", to_valid_utf8(info.name)},
                             {"type", type_name(leads ? details.resolved_type : info.type)},
                             {"path", to_valid_utf8(clean_path(info.path))},
                             {"size", info.size},
                             {"mode", info.mode & 0777U},
                             {"permissions", permissions_text(info.type, info.mode)},
                             {"owner", to_valid_utf8(details.owner)},
                             {"group", to_valid_utf8(details.group)},
                             {"modifiedTime", info.modified_unix_ns}});
  if (link) {
    entry.set("symlinkTarget", to_valid_utf8(leads ? details.resolved_path : info.link_target));
    entry.set("isSymlink", true);
  }
  if (Json metadata = metadata_json(details.attributes); !metadata.as_object()->empty()) {
    entry.set("metadata", std::move(metadata));
  }
  return entry;
}

Json file_event_json(const guest::FileEvent& event, std::string_view root) {
  std::string_view name = event.path;
  if (name.starts_with(root)) {
    name.remove_prefix(root.size());
  }
  while (name.starts_with('/')) {
    name.remove_prefix(1);
  }
  return Json::object({{"name", name.empty() ? std::string{"."} : to_valid_utf8(name)},
                       {"type", event_name(event.event)}});
}

bool is_passing(const guest::FileEvent& event) {
  constexpr std::string_view kPrefix = ".atoll-";
  constexpr std::size_t kDigits = 16;
  std::string_view name = event.path;
  name.remove_prefix(name.rfind('/') + 1);
  return name.size() == kPrefix.size() + kDigits && name.starts_with(kPrefix) &&
         name.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string_view::npos;
}

bool has_entry(FileEventType type) {
  return type == FileEventType::kCreate || type == FileEventType::kWrite ||
         type == FileEventType::kChmod;
}

}  // namespace atl::service::e2b::envd
