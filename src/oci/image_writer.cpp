#include "oci/image_writer.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/json.h"
#include "base/strings.h"

namespace atl::oci {
namespace {

constexpr std::string_view kManifestType = "application/vnd.oci.image.manifest.v1+json";
constexpr std::string_view kConfigType = "application/vnd.oci.image.config.v1+json";
constexpr std::string_view kLayerType = "application/vnd.oci.image.layer.v1.tar";

std::string layer_type(ArchiveFormat format) {
  switch (format) {
    case ArchiveFormat::kTarGzip:
      return concat(kLayerType, "+gzip");
    case ArchiveFormat::kTarZstd:
      return concat(kLayerType, "+zstd");
    case ArchiveFormat::kTar:
      break;
  }
  return std::string{kLayerType};
}

Json descriptor(std::string_view type, std::string_view sha256, std::uint64_t size) {
  return Json::object({{"mediaType", type}, {"digest", concat("sha256:", sha256)}, {"size", size}});
}

Json text_list(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) {
    list.push(text);
  }
  return list;
}

}  // namespace

// libarchive compresses: an archive of the format "raw" is one entry and nothing around it.
struct LayerFile::Impl {
  Fd file;
  struct archive* handle = nullptr;
  Sha256 blob;
  Sha256 tar;
  std::uint64_t size = 0;
  std::optional<Error> failure;

  ~Impl() {
    if (handle != nullptr) {
      failure.emplace(Code::kCancelled, "");  // nothing more is written
      ::archive_write_free(handle);
    }
  }

  la_ssize_t append(std::string_view bytes) {
    if (failure) {
      return -1;
    }
    if (auto written = write_all(file.get(), bytes); !written) {
      failure = std::move(written).error();
      return -1;
    }
    blob.update(bytes);
    size += bytes.size();
    return static_cast<la_ssize_t>(bytes.size());
  }

  Error broken() const {
    if (failure) {
      return *failure;
    }
    const char* why = ::archive_error_string(handle);
    return Error{Code::kInternal,
                 concat("compressing a layer: ", to_valid_utf8(why == nullptr ? "" : why)), ""};
  }
};

LayerFile::LayerFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LayerFile::~LayerFile() = default;

Result<std::unique_ptr<LayerFile>> LayerFile::make(const std::string& directory,
                                                   ArchiveFormat format) {
  auto impl = std::make_unique<Impl>();
  impl->file = Fd{::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
  if (!impl->file) {
    return fail_errno(concat("making a file in ", directory));
  }
  impl->handle = ::archive_write_new();
  CHECK(impl->handle != nullptr);
  ::archive_write_set_format_raw(impl->handle);
  ::archive_write_set_bytes_per_block(impl->handle, 0);
  if (format == ArchiveFormat::kTarGzip) {
    ::archive_write_add_filter_gzip(impl->handle);
    ::archive_write_set_options(impl->handle, "gzip:compression-level=6,gzip:!timestamp");
  } else if (format == ArchiveFormat::kTarZstd) {
    ::archive_write_add_filter_zstd(impl->handle);
    ::archive_write_set_options(impl->handle, "zstd:compression-level=3");
  }
  const auto write = [](struct archive*, void* data, const void* bytes, std::size_t size) {
    return static_cast<Impl*>(data)->append({static_cast<const char*>(bytes), size});
  };
  struct archive_entry* entry = ::archive_entry_new();
  CHECK(entry != nullptr);
  ::archive_entry_copy_pathname(entry, "layer");
  ::archive_entry_set_filetype(entry, AE_IFREG);
  const bool begun =
      ::archive_write_open(impl->handle, impl.get(), nullptr, write, nullptr) == ARCHIVE_OK &&
      ::archive_write_header(impl->handle, entry) == ARCHIVE_OK;
  ::archive_entry_free(entry);
  if (!begun) {
    return fail(impl->broken());
  }
  return std::unique_ptr<LayerFile>{new LayerFile{std::move(impl)}};
}

Result<> LayerFile::write(std::string_view tar_bytes) {
  impl_->tar.update(tar_bytes);
  while (!tar_bytes.empty()) {
    const la_ssize_t put = ::archive_write_data(impl_->handle, tar_bytes.data(), tar_bytes.size());
    if (put <= 0) {
      return fail(impl_->broken());
    }
    tar_bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Result<LayerSummary> LayerFile::finish() {
  if (::archive_write_close(impl_->handle) != ARCHIVE_OK) {
    return fail(impl_->broken());
  }
  return LayerSummary{impl_->blob.hex_digest(), impl_->tar.hex_digest(), impl_->size};
}

std::uint64_t LayerFile::size() const {
  return impl_->size;
}

Result<std::string> LayerFile::read(std::uint64_t offset, std::size_t max_bytes) const {
  std::string bytes(max_bytes, '\0');
  ssize_t got = 0;
  do {
    got = ::pread(impl_->file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
  } while (got < 0 && errno == EINTR);
  if (got <= 0) {
    return got < 0 ? fail_errno("reading a layer")
                   : fail(Code::kDataLoss, "a layer is shorter than it was");
  }
  bytes.resize(static_cast<std::size_t>(got));
  return bytes;
}

std::string sha256_of(std::string_view bytes) {
  Sha256 digest;
  digest.update(bytes);
  return digest.hex_digest();
}

std::string layout_text() {
  return Json::object({{"imageLayoutVersion", "1.0.0"}}).dump();
}

std::string config_text(const ImageConfig& config, const std::vector<LayerSummary>& layers) {
  Json settings = Json::object();
  std::vector<std::string> variables;
  for (const auto& [name, value] : config.env) {
    variables.push_back(concat(name, "=", value));
  }
  if (!variables.empty()) {
    settings.set("Env", text_list(variables));
  }
  if (!config.user.empty()) {
    settings.set("User", config.user);
  }
  if (!config.working_dir.empty()) {
    settings.set("WorkingDir", config.working_dir);
  }
  if (!config.entrypoint.empty()) {
    settings.set("Entrypoint", text_list(config.entrypoint));
  }
  if (!config.command.empty()) {
    settings.set("Cmd", text_list(config.command));
  }
  Json diff_ids = Json::array();
  for (const LayerSummary& layer : layers) {
    diff_ids.push(concat("sha256:", layer.diff_id));
  }
  return Json::object(
             {{"architecture", machine_architecture()},
              {"os", "linux"},
              {"config", std::move(settings)},
              {"rootfs", Json::object({{"type", "layers"}, {"diff_ids", std::move(diff_ids)}})}})
      .dump();
}

std::string manifest_text(std::string_view config, const std::vector<LayerSummary>& layers,
                          ArchiveFormat format) {
  Json list = Json::array();
  for (const LayerSummary& layer : layers) {
    list.push(descriptor(layer_type(format), layer.sha256, layer.size));
  }
  return Json::object({{"schemaVersion", 2},
                       {"mediaType", kManifestType},
                       {"config", descriptor(kConfigType, sha256_of(config), config.size())},
                       {"layers", std::move(list)}})
      .dump();
}

std::string index_text(std::string_view manifest) {
  Json image = descriptor(kManifestType, sha256_of(manifest), manifest.size());
  image.set("annotations", Json::object({{"org.opencontainers.image.ref.name", "latest"}}));
  Json list = Json::array();
  list.push(std::move(image));
  return Json::object({{"schemaVersion", 2},
                       {"mediaType", "application/vnd.oci.image.index.v1+json"},
                       {"manifests", std::move(list)}})
      .dump();
}

}  // namespace atl::oci
