#include "store/sqlite/columns.h"

#include "base/json.h"

namespace atl::store {
namespace {

std::unexpected<Error> damaged() {
  return fail(Code::kDataLoss, "a column of the database holds something we never wrote", "store");
}

}  // namespace

std::string encode_list(const std::vector<std::string>& values) {
  Json list = Json::array();
  for (const auto& value : values) {
    list.push(value);
  }
  return list.dump();
}

std::string encode_map(const StringMap& values) {
  Json object = Json::object();
  for (const auto& [key, value] : values) {
    object.set(key, value);
  }
  return object.dump();
}

Result<std::vector<std::string>> decode_list(const std::string& column) {
  const auto parsed = Json::parse(column);
  if (!parsed || parsed->as_array() == nullptr) {
    return damaged();
  }
  std::vector<std::string> values;
  for (const auto& element : *parsed->as_array()) {
    if (element.as_string() == nullptr) {
      return damaged();
    }
    values.push_back(*element.as_string());
  }
  return values;
}

Result<StringMap> decode_map(const std::string& column) {
  const auto parsed = Json::parse(column);
  if (!parsed || parsed->as_object() == nullptr) {
    return damaged();
  }
  StringMap values;
  for (const auto& [key, value] : *parsed->as_object()) {
    if (value.as_string() == nullptr) {
      return damaged();
    }
    values.emplace(key, *value.as_string());
  }
  return values;
}

std::string encode_mounts(const std::vector<Mount>& mounts) {
  Json list = Json::array();
  for (const Mount& mount : mounts) {
    list.push(Json::object(
        {{"volume", mount.volume_id}, {"path", mount.path}, {"read_only", mount.read_only}}));
  }
  return list.dump();
}

Result<std::vector<Mount>> decode_mounts(const std::string& column) {
  const auto parsed = Json::parse(column);
  if (!parsed || parsed->as_array() == nullptr) {
    return damaged();
  }
  std::vector<Mount> mounts;
  for (const Json& element : *parsed->as_array()) {
    const Json* volume = element.find("volume");
    const Json* path = element.find("path");
    const Json* read_only = element.find("read_only");
    if (volume == nullptr || volume->as_string() == nullptr || path == nullptr ||
        path->as_string() == nullptr || read_only == nullptr || read_only->as_bool() == nullptr) {
      return damaged();
    }
    mounts.push_back({*volume->as_string(), *path->as_string(), *read_only->as_bool()});
  }
  return mounts;
}

}  // namespace atl::store
