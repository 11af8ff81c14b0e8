#include "oci/image.h"

#include <sys/utsname.h>

#include "base/fd.h"
#include "base/random.h"
#include "base/strings.h"
#include "oci/digest.h"
#include "oci/limits.h"

namespace atl::oci {
namespace {

std::unexpected<Error> bad_image(std::string what) {
  return fail(Code::kInvalidArgument, concat("the image is not usable: ", what), "bad_image");
}

std::string text_of(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value != nullptr && value->as_string() != nullptr ? *value->as_string() : std::string{};
}

std::vector<std::string> texts_of(const Json& json, std::string_view key) {
  std::vector<std::string> texts;
  const Json* list = json.find(key);
  if (list == nullptr || list->as_array() == nullptr) {
    return texts;
  }
  for (const Json& element : *list->as_array()) {
    if (element.as_string() != nullptr && texts.size() < kMaxConfigStrings) {
      texts.push_back(*element.as_string());
    }
  }
  return texts;
}

std::map<std::string, std::string, std::less<>> map_of(const Json& json, std::string_view key) {
  std::map<std::string, std::string, std::less<>> map;
  const Json* object = json.find(key);
  if (object != nullptr && object->as_object() != nullptr) {
    for (const auto& [name, value] : *object->as_object()) {
      if (value.as_string() != nullptr && map.size() < kMaxConfigStrings) {
        map.emplace(name, *value.as_string());
      }
    }
  }
  return map;
}

class Layout {
 public:
  explicit Layout(std::string directory) : directory_(std::move(directory)) {}

  Result<Image> open() {
    auto text = read_file(directory_ + "/index.json", kMaxMetadataBytes);
    if (!text) {
      return bad_image(concat("it has no readable index.json: ", text.error().message));
    }
    TRY(const Json index, parse(*text));
    TRY(const std::string digest, choose_manifest(index, 0));
    TRY(const Json manifest, read_blob(digest));
    Image image;
    image.digest = sha256_digits(digest);
    TRY_DO(read_layers(manifest, image));
    const Json* config = manifest.find("config");
    if (config == nullptr) {
      return bad_image("its manifest has no configuration");
    }
    TRY(const Json configuration, read_blob(text_of(*config, "digest")));
    const std::string architecture = text_of(configuration, "architecture");
    if (!architecture.empty() && architecture != machine_architecture()) {
      return bad_image(
          concat("it is for ", architecture, ", this machine is ", machine_architecture()));
    }
    if (const Json* inner = configuration.find("config"); inner != nullptr) {
      image.config = read_config(*inner);
    }
    return image;
  }

 private:
  static Result<Json> parse(std::string_view text) {
    auto json = Json::parse(text);
    if (!json) {
      return bad_image(json.error().message);
    }
    return json;
  }

  Result<std::string> blob_path(std::string_view digest) const {
    const std::string_view digits = sha256_digits(digest);
    if (digits.empty()) {
      return bad_image(concat("\"", to_valid_utf8(digest), "\" is no sha256 digest"));
    }
    return concat(directory_, "/blobs/sha256/", digits);
  }

  Result<Json> read_blob(std::string_view digest) const {
    TRY(const std::string path, blob_path(digest));
    auto text = read_file(path, kMaxMetadataBytes);
    if (!text) {
      return bad_image(concat("blob ", digest, " is missing or too large"));
    }
    if (hex(sha256(*text)) != sha256_digits(digest)) {
      return fail(Code::kDataLoss,
                  concat("the content does not have the digest ", digest, " it is named by"),
                  "bad_digest");
    }
    return parse(*text);
  }

  static bool is_index(const Json& descriptor) {
    const std::string type = text_of(descriptor, "mediaType");
    return type.find("image.index") != type.npos || type.find("manifest.list") != type.npos;
  }

  static bool fits(const Json& descriptor) {
    const Json* platform = descriptor.find("platform");
    return platform == nullptr || (text_of(*platform, "os") == "linux" &&
                                   text_of(*platform, "architecture") == machine_architecture());
  }

  Result<std::string> choose_manifest(const Json& index, int depth) const {
    const Json* manifests = index.find("manifests");
    if (manifests == nullptr || manifests->as_array() == nullptr || depth > 2) {
      return bad_image("its index lists no manifests");
    }
    for (const Json& descriptor : *manifests->as_array()) {
      if (!fits(descriptor)) {
        continue;
      }
      const std::string digest = text_of(descriptor, "digest");
      if (!is_index(descriptor)) {
        return digest;
      }
      TRY(const Json inner, read_blob(digest));
      return choose_manifest(inner, depth + 1);
    }
    return bad_image(concat("it has nothing for linux/", machine_architecture()));
  }

  Result<> read_layers(const Json& manifest, Image& image) const {
    const Json* layers = manifest.find("layers");
    if (layers == nullptr || layers->as_array() == nullptr) {
      return bad_image("its manifest lists no layers");
    }
    for (const Json& descriptor : *layers->as_array()) {
      const std::string type = text_of(descriptor, "mediaType");
      if (type.find("encrypted") != type.npos) {
        return bad_image("it has an encrypted layer");
      }
      const std::string digest = text_of(descriptor, "digest");
      TRY(std::string path, blob_path(digest));
      image.layers.push_back({std::move(path), std::string{sha256_digits(digest)}});
      if (image.layers.size() > kMaxImageLayers) {
        return bad_image(concat("it has more than ", kMaxImageLayers, " layers"));
      }
    }
    return {};
  }

  static ImageConfig read_config(const Json& json) {
    ImageConfig config;
    for (const std::string& variable : texts_of(json, "Env")) {
      const auto equals = variable.find('=');
      if (equals != variable.npos && equals > 0) {
        config.env.insert_or_assign(variable.substr(0, equals), variable.substr(equals + 1));
      }
    }
    config.working_dir = text_of(json, "WorkingDir");
    config.user = text_of(json, "User");
    config.command = texts_of(json, "Cmd");
    config.entrypoint = texts_of(json, "Entrypoint");
    config.shell = texts_of(json, "Shell");
    config.labels = map_of(json, "Labels");
    const Json* ports = json.find("ExposedPorts");
    if (ports != nullptr && ports->as_object() != nullptr) {
      for (const auto& [port, ignored] : *ports->as_object()) {
        if (config.exposed_ports.size() < kMaxConfigStrings) {
          config.exposed_ports.push_back(port);
        }
      }
    }
    return config;
  }

  std::string directory_;
};

Json list_json(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) {
    list.push(text);
  }
  return list;
}

Json map_json(const std::map<std::string, std::string, std::less<>>& map) {
  Json object = Json::object();
  for (const auto& [name, value] : map) {
    object.set(name, value);
  }
  return object;
}

}  // namespace

std::string machine_architecture() {
  utsname names{};
  ::uname(&names);
  const std::string_view machine = names.machine;
  if (machine == "x86_64") {
    return "amd64";
  }
  if (machine == "aarch64") {
    return "arm64";
  }
  return std::string{machine};
}

Result<Image> open_image_layout(const std::string& directory) {
  return Layout{directory}.open();
}

Json to_json(const ImageConfig& config) {
  return Json::object({{"env", map_json(config.env)},
                       {"workingDir", config.working_dir},
                       {"user", config.user},
                       {"command", list_json(config.command)},
                       {"entrypoint", list_json(config.entrypoint)},
                       {"shell", list_json(config.shell)},
                       {"exposedPorts", list_json(config.exposed_ports)},
                       {"labels", map_json(config.labels)}});
}

ImageConfig config_from_json(const Json& json) {
  ImageConfig config;
  config.env = map_of(json, "env");
  config.working_dir = text_of(json, "workingDir");
  config.user = text_of(json, "user");
  config.command = texts_of(json, "command");
  config.entrypoint = texts_of(json, "entrypoint");
  config.shell = texts_of(json, "shell");
  config.exposed_ports = texts_of(json, "exposedPorts");
  config.labels = map_of(json, "labels");
  return config;
}

}  // namespace atl::oci
