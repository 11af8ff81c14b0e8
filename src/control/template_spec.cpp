#include "control/template_spec.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>

#include "base/strings.h"
#include "control/limits.h"
#include "control/sandboxes.h"
#include "oci/image.h"

namespace atl::control {
namespace {

std::unexpected<Error> refuse(std::string what) {
  return fail(Code::kInvalidArgument, std::move(what));
}

Result<> check_fields(const Json& json, std::string_view where,
                      std::initializer_list<std::string_view> known,
                      std::initializer_list<std::string_view> not_yet) {
  if (json.as_object() == nullptr) {
    return refuse(concat("\"", where, "\" must be an object"));
  }
  for (const auto& [name, value] : *json.as_object()) {
    if (std::ranges::find(not_yet, name) != not_yet.end() && !value.is_null()) {
      return refuse(concat("\"", where, ".", name, "\" is not available in this version"));
    }
    if (std::ranges::find(known, name) == known.end() &&
        std::ranges::find(not_yet, name) == not_yet.end()) {
      return refuse(concat("\"", where, "\" has no field \"", to_valid_utf8(name), "\""));
    }
  }
  return {};
}

Result<std::string> text_field(const Json& json, std::string_view where, std::string_view name) {
  const Json* value = json.find(name);
  if (value == nullptr) {
    return std::string{};
  }
  if (value->as_string() == nullptr) {
    return refuse(concat("\"", where, ".", name, "\" must be a string"));
  }
  return *value->as_string();
}

Result<> read_env_list(const Json& container, store::StringMap& env) {
  const Json* list = container.find("env");
  if (list == nullptr) {
    return {};
  }
  if (list->as_array() == nullptr) {
    return refuse("\"spec.mainContainer.env\" must be a list of {name, value}");
  }
  for (const Json& variable : *list->as_array()) {
    TRY_DO(check_fields(variable, "spec.mainContainer.env", {"name", "value"}, {}));
    TRY(const std::string name, text_field(variable, "spec.mainContainer.env", "name"));
    TRY(env[name], text_field(variable, "spec.mainContainer.env", "value"));
  }
  return {};
}

Result<> read_container(const Json& spec, TemplateSpec& out) {
  const Json* container = spec.find("mainContainer");
  if (container == nullptr) {
    return {};
  }
  constexpr std::string_view kWhere = "spec.mainContainer";
  TRY_DO(check_fields(*container, kWhere,
                      {"image", "env", "resources", "imagePullPolicy", "securityClass"},
                      {"securityContext"}));
  TRY(const std::string security, text_field(*container, kWhere, "securityClass"));
  if (!security.empty() && security != "privileged") {
    return refuse("\"spec.mainContainer.securityClass\" knows \"privileged\" only: root inside");
  }
  TRY(out.image, text_field(*container, kWhere, "image"));
  TRY_DO(read_env_list(*container, out.env));
  const Json* resources = container->find("resources");
  if (resources == nullptr) {
    return {};
  }
  constexpr std::string_view kResources = "spec.mainContainer.resources";
  TRY_DO(check_fields(*resources, kResources, {"memory", "ephemeralStorage", "cpu"}, {}));
  const auto optional = [&](std::string_view name) -> Result<std::optional<std::string>> {
    TRY(std::string text, text_field(*resources, kResources, name));
    return text.empty() ? std::nullopt : std::optional{std::move(text)};
  };
  TRY(out.resources.memory, optional("memory"));
  TRY(out.resources.disk, optional("ephemeralStorage"));
  TRY(out.resources.cpu, optional("cpu"));
  return {};
}

Result<std::optional<PoolBounds>> read_pool(const Json& spec) {
  const Json* pool = spec.find("pool");
  if (pool == nullptr) {
    return std::nullopt;
  }
  TRY_DO(check_fields(*pool, "spec.pool", {"minIdle", "maxIdle"}, {}));
  const auto number = [&](std::string_view name) {
    const Json* value = pool->find(name);
    return value == nullptr ? 0 : value->as_integer() == nullptr ? -1 : *value->as_integer();
  };
  const std::int64_t least = number("minIdle");
  const std::int64_t most = number("maxIdle");
  if (least < 0 || most < least || most > static_cast<std::int64_t>(kMaxIdle)) {
    return refuse(concat("\"spec.pool\" needs 0 <= minIdle <= maxIdle <= ", kMaxIdle));
  }
  return PoolBounds{static_cast<std::size_t>(least), static_cast<std::size_t>(most)};
}

// "numpy", "matplotlib.pyplot"
bool is_module_name(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return name.size() <= kMaxPreloadModuleBytes &&
         std::ranges::all_of(split(name, '.'), [&](std::string_view part) {
           return !part.empty() && letter(part.front()) && std::ranges::all_of(part, [&](char c) {
             return letter(c) || (c >= '0' && c <= '9');
           });
         });
}

Result<> read_preload(const Json& spec, TemplateSpec& out) {
  const Json* modules = spec.find("preload");
  if (modules == nullptr) {
    return {};
  }
  if (modules->as_array() == nullptr || modules->as_array()->size() > kMaxPreloadModules) {
    return refuse(concat("\"spec.preload\" must be an array of at most ", kMaxPreloadModules,
                         " names of Python modules"));
  }
  for (const Json& module : *modules->as_array()) {
    if (module.as_string() == nullptr || !is_module_name(*module.as_string())) {
      return refuse(
          "\"spec.preload\" needs names of Python modules, for example \"matplotlib.pyplot\"");
    }
    if (std::ranges::find(out.preload, *module.as_string()) != out.preload.end()) {
      return refuse(concat("\"spec.preload\" has \"", *module.as_string(), "\" twice"));
    }
    out.preload.push_back(*module.as_string());
  }
  return {};
}

// The mount points a template offers; a claim binds volumes to them.
Result<> read_mounts(const Json& spec, TemplateSpec& out) {
  const Json* mounts = spec.find("volumeMounts");
  if (mounts == nullptr) {
    return {};
  }
  if (mounts->as_array() == nullptr || mounts->as_array()->size() > kMaxTemplateMounts) {
    return refuse(concat("\"spec.volumeMounts\" must be an array of at most ", kMaxTemplateMounts));
  }
  std::set<std::string> names;
  std::set<std::string> paths;
  constexpr std::string_view kWhere = "spec.volumeMounts[]";
  for (const Json& mount : *mounts->as_array()) {
    TRY_DO(check_fields(mount, kWhere, {"name", "mountPath", "readOnly"}, {}));
    TRY(const std::string name, text_field(mount, kWhere, "name"));
    TRY(const std::string path, text_field(mount, kWhere, "mountPath"));
    const Json* read_only = mount.find("readOnly");
    if (name.empty() || !node::is_mount_path(path) ||
        (read_only != nullptr && read_only->as_bool() == nullptr)) {
      return refuse(
          "\"spec.volumeMounts\" needs for each a name, an absolute mountPath outside "
          "/proc, /sys and /dev, and perhaps readOnly");
    }
    if (!names.insert(name).second || !paths.insert(path).second) {
      return refuse("\"spec.volumeMounts\" has a name or mountPath twice");
    }
    if (read_only != nullptr && *read_only->as_bool()) {
      out.read_only_mounts.insert(path);
    }
  }
  return {};
}

Result<NetworkRequestPtr> read_spec_network(const Json& spec) {
  const Json* network = spec.find("network");
  if (network == nullptr) {
    return nullptr;
  }
  TRY(auto read, read_network(*network, "spec.network", NetworkPlace::kTemplate));
  TRY_DO(check_credentials(read.document, "spec.network"));
  return std::make_shared<const NetworkRequest>(std::move(read));
}

}  // namespace

Result<TemplateSpec> parse_template_spec(const Json& spec) {
  TRY_DO(check_fields(spec, "spec",
                      {"description", "displayName", "tags", "mainContainer", "pool", "envVars",
                       "volumeMounts", "ephemeral_tmp", "network", "preload"},
                      {"pod", "clusterId"}));
  TemplateSpec out;
  TRY_DO(read_container(spec, out));
  TRY(out.pool, read_pool(spec));
  TRY_DO(read_preload(spec, out));
  TRY_DO(read_mounts(spec, out));
  TRY(out.network, read_spec_network(spec));
  if (const Json* ephemeral = spec.find("ephemeral_tmp"); ephemeral != nullptr) {
    if (ephemeral->as_bool() == nullptr) {
      return refuse("\"spec.ephemeral_tmp\" must be true or false");
    }
    out.ephemeral_tmp = *ephemeral->as_bool();
  }
  if (const Json* variables = spec.find("envVars"); variables != nullptr) {
    if (variables->as_object() == nullptr) {
      return refuse("\"spec.envVars\" must be an object of strings");
    }
    for (const auto& [name, value] : *variables->as_object()) {
      if (value.as_string() == nullptr) {
        return refuse(concat("\"spec.envVars.", to_valid_utf8(name), "\" must be a string"));
      }
      out.env.insert_or_assign(name, *value.as_string());
    }
  }
  TRY_DO(validate_env(out.env, "spec.envVars"));
  return out;
}

TemplateDefaults template_defaults(const Template& value) {
  TemplateDefaults defaults;
  oci::ImageConfig config;
  if (const auto json = Json::parse(value.config)) {
    config = oci::config_from_json(*json);
    defaults.start = start_from_json(json->find("start"));
  }
  defaults.env = std::move(config.env);
  defaults.user = config.user.empty() ? "root" : config.user;
  defaults.cwd = config.working_dir.empty() ? "/" : config.working_dir;
  const auto json = Json::parse(value.spec);
  if (auto spec = json ? parse_template_spec(*json) : Result<TemplateSpec>{}; spec) {
    for (auto& [name, text] : spec->env) {
      defaults.env.insert_or_assign(name, std::move(text));
    }
    defaults.resources = std::move(spec->resources);
    defaults.ephemeral_tmp = spec->ephemeral_tmp;
    defaults.pool = spec->pool;
    defaults.read_only_mounts = std::move(spec->read_only_mounts);
    defaults.preload = std::move(spec->preload);
  }
  return defaults;
}

TemplateNetwork template_network(const Template& value) {
  const auto json = Json::parse(value.spec);
  auto network = json ? read_spec_network(*json) : Result<NetworkRequestPtr>{fail(json.error())};
  if (!network) {
    return {.network = nullptr,
            .failure = concat("the policy of template \"", value.name,
                              "\" cannot be read: ", network.error().message)};
  }
  return {.network = *std::move(network), .failure = {}};
}

}  // namespace atl::control
