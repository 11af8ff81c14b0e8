// An OCI image layout on disk (index.json, blobs/sha256/*), opened and checked.
//
// Index, manifest and configuration must have the digests they are named by; layers are checked
// while they are read (ImageTree). Of an index with several platforms the one of this machine is
// taken. Every string comes from whoever made the image. Blocking.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace atl::oci {

// What an image says about the processes that run in it.
struct ImageConfig {
  std::map<std::string, std::string, std::less<>> env;
  std::string working_dir;
  std::string user;
  std::vector<std::string> command;
  std::vector<std::string> entrypoint;
  std::vector<std::string> shell;          // empty: /bin/sh -c
  std::vector<std::string> exposed_ports;  // "80/tcp"
  std::map<std::string, std::string, std::less<>> labels;
  bool operator==(const ImageConfig&) const = default;
};
Json to_json(const ImageConfig& config);
// Our own JSON back; what is missing or odd becomes empty.
ImageConfig config_from_json(const Json& json);

struct LayerBlob {
  std::string path;
  std::string sha256;
};

struct Image {
  std::string digest;  // of the manifest: 64 digits
  ImageConfig config;
  std::vector<LayerBlob> layers;  // lowest first
};

Result<Image> open_image_layout(const std::string& directory);
// "amd64", "arm64": this machine in OCI's words.
std::string machine_architecture();

}  // namespace atl::oci
