#include "service/native/file_target.h"

#include <vector>

#include "base/strings.h"
#include "http/message.h"
#include "service/native/envelope.h"

namespace atl::service::native {
namespace {

std::string clean(std::string_view path) {
  std::vector<std::string_view> parts;
  for (const std::string_view part : split(path, '/')) {
    if (part == ".." && !parts.empty()) {
      parts.pop_back();
    } else if (!part.empty() && part != "." && part != "..") {
      parts.push_back(part);
    }
  }
  std::string out;
  for (const std::string_view part : parts) {
    out += concat("/", part);
  }
  return out.empty() || path.ends_with('/') ? out + "/" : out;
}

}  // namespace

std::string mode_text(std::uint32_t mode) {
  constexpr std::string_view kDigits = "01234567";
  std::string text = "0";
  if ((mode >> 9U) != 0) {
    text = kDigits[(mode >> 9U) & 7U];
  }
  for (const unsigned shift : {6U, 3U, 0U}) {
    text += kDigits[(mode >> shift) & 7U];
  }
  return text;
}

std::string absolute_path(std::string_view path, const control::FileDefaults& defaults) {
  return clean(path.starts_with('/') ? std::string{path} : concat(defaults.cwd, "/", path));
}

Result<FileTarget> parse_file_target(std::string_view query, const control::FileDefaults& defaults,
                                     std::string_view fallback) {
  auto path = http::query_value(query, "path");
  if ((!path || path->empty()) && fallback.empty()) {
    return fail(Code::kInvalidArgument, "query parameter \"path\" is required");
  }
  if (!path || path->empty()) {
    path = std::string{fallback};
  }
  std::string absolute = absolute_path(*path, defaults);
  return FileTarget{*std::move(path), std::move(absolute),
                    defaults.choose_user(http::query_value(query, "user"))};
}

std::string_view file_type_text(guest::FileType type) {
  switch (type) {
    case guest::FileType::kFile:
      return "file";
    case guest::FileType::kDirectory:
      return "dir";
    case guest::FileType::kSymlink:
      return "symlink";
    case guest::FileType::kHardlink:
    case guest::FileType::kFifo:
    case guest::FileType::kOther:
      return "other";
  }
  return "other";
}

std::string_view file_event_name(guest::FileEventType type) {
  switch (type) {
    case guest::FileEventType::kCreate:
      return "create";
    case guest::FileEventType::kWrite:
      return "write";
    case guest::FileEventType::kRemove:
      return "remove";
    case guest::FileEventType::kRename:
      return "rename";
    case guest::FileEventType::kChmod:
      return "chmod";
    case guest::FileEventType::kOverflow:
      return "overflow";
  }
  return "overflow";
}

Json file_json(const guest::FileInfo& info) {
  const bool link = info.type == guest::FileType::kSymlink;
  Json json = Json::object({{"name", info.name},
                            {"path", info.path},
                            {"type", file_type_text(info.type)},
                            {"size", info.size},
                            {"mode", mode_text(info.mode)},
                            {"mod_time", rfc3339(info.modified_unix_ns / 1'000'000)},
                            {"is_link", link},
                            {"uid", info.uid},
                            {"gid", info.gid}});
  if (link) {
    json.set("link_target", info.link_target);
  }
  return json;
}

Result<control::GuestClient> guest_of(const control::Files& files) {
  if (files.guest() == nullptr) {
    return fail(Code::kUnimplemented,
                "searches are not possible in a volume of this kind: list and read it instead",
                "unsupported_backend");
  }
  return *files.guest();
}

}  // namespace atl::service::native
