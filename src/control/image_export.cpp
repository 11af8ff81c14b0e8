#include "control/image_export.h"

#include <algorithm>

#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

constexpr std::size_t kPieceBytes = 1U << 20;

std::string blob_path(std::string_view sha256) {
  return concat("blobs/sha256/", sha256);
}

}  // namespace

Task<> ImageExport::run(std::string guest_socket, std::vector<std::string> trees,
                        const Write& write) {
  CO_TRY_DO(co_await send_text("oci-layout", oci::layout_text(), write));
  // Who unpacks without privileges cannot give away directories that it makes on the way.
  for (const char* directory : {"blobs", "blobs/sha256"}) {
    CO_TRY_DO(output_.begin({.path = directory, .type = oci::EntryType::kDirectory, .mode = 0755}));
  }
  for (std::size_t i = trees.size(); i > 0; --i) {
    const auto from = trees.begin() + static_cast<std::ptrdiff_t>(i);
    guest::DiffRequest request{
        .from = {from, trees.end()}, .to = {from - 1, trees.end()}, .contents = true};
    Scratch::Lease lease{parts_.scratch, parts_.team_id};
    CO_TRY(auto file, oci::LayerFile::make(parts_.directory, parts_.format));
    CO_TRY(const auto layer, co_await make_layer(guest_socket, std::move(request), *file, lease));
    // Two layers without a change are the same blob, which is sent once.
    const bool known = std::ranges::any_of(
        layers_, [&](const oci::LayerSummary& sent) { return sent.sha256 == layer.sha256; });
    if (!known) {
      CO_TRY_DO(co_await send_layer(*file, layer, write));
    }
    layers_.push_back(layer);
  }
  co_return co_await send_rest(write);
}

Task<oci::LayerSummary> ImageExport::make_layer(std::string guest_socket,
                                                guest::DiffRequest request, oci::LayerFile& file,
                                                Scratch::Lease& lease) {
  CO_TRY(auto stream,
         co_await DiffStream::open(parts_.reactor, std::move(guest_socket), std::move(request)));
  DiffArchive archive{parts_.pool, std::move(stream), oci::ArchiveFormat::kTar};
  for (;;) {
    CO_TRY(const std::string bytes, co_await archive.next());
    if (bytes.empty()) {
      co_return co_await parts_.pool.run([&file] { return file.finish(); });
    }
    CO_TRY_DO(lease.hold(file.size() + bytes.size()));
    CO_TRY_DO(co_await parts_.pool.run([&file, &bytes] { return file.write(bytes); }));
    if (file.size() > kMaxUploadBytes) {
      co_return fail(Code::kResourceExhausted,
                     concat("a layer is larger than ", format_quantity(kMaxUploadBytes)),
                     "archive_too_large");
    }
  }
}

Task<> ImageExport::send_layer(oci::LayerFile& file, const oci::LayerSummary& layer,
                               const Write& write) {
  CO_TRY_DO(output_.begin({.path = blob_path(layer.sha256), .size = layer.size}));
  for (std::uint64_t at = 0; at < layer.size;) {
    CO_TRY(const std::string bytes,
           co_await parts_.pool.run([&file, at] { return file.read(at, kPieceBytes); }));
    at += bytes.size();
    CO_TRY_DO(output_.write(bytes));
    const std::string out = output_.take();
    CO_TRY_DO(co_await write(out));
  }
  co_return ok();
}

Task<> ImageExport::send_text(std::string path, std::string text, const Write& write) {
  CO_TRY_DO(output_.begin({.path = std::move(path), .size = text.size()}));
  CO_TRY_DO(output_.write(text));
  const std::string out = output_.take();
  co_return co_await write(out);
}

Task<> ImageExport::send_rest(const Write& write) {
  const std::string config = oci::config_text(parts_.config, layers_);
  const std::string manifest = oci::manifest_text(config, layers_, parts_.format);
  CO_TRY_DO(co_await send_text(blob_path(oci::sha256_of(config)), config, write));
  CO_TRY_DO(co_await send_text(blob_path(oci::sha256_of(manifest)), manifest, write));
  CO_TRY_DO(co_await send_text("index.json", oci::index_text(manifest), write));
  CO_TRY_DO(output_.finish());
  const std::string out = output_.take();
  co_return co_await write(out);
}

}  // namespace atl::control
