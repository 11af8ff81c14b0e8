#include "oci/archive_writer.h"

#include <archive.h>
#include <archive_entry.h>

#include <utility>

#include "base/strings.h"
#include "oci/utf8_thread.h"

namespace atl::oci {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;

unsigned file_type(EntryType type) {
  switch (type) {
    case EntryType::kDirectory:
      return AE_IFDIR;
    case EntryType::kSymlink:
      return AE_IFLNK;
    case EntryType::kFifo:
      return AE_IFIFO;
    case EntryType::kFile:
    case EntryType::kHardlink:
    case EntryType::kSkipped:
      break;
  }
  return AE_IFREG;
}

}  // namespace

struct ArchiveWriter::Impl {
  struct archive* handle = nullptr;
  struct archive_entry* entry = nullptr;
  std::string output;
  bool dropped = false;  // nobody takes the output any more

  Error broken() const {
    const char* why = ::archive_error_string(handle);
    return Error{Code::kInternal,
                 concat("writing an archive: ", to_valid_utf8(why == nullptr ? "" : why)), ""};
  }
};

ArchiveWriter::ArchiveWriter(ArchiveFormat format) : impl_(std::make_unique<Impl>()) {
  const Utf8Thread locale;
  impl_->handle = ::archive_write_new();
  impl_->entry = ::archive_entry_new();
  CHECK(impl_->handle != nullptr && impl_->entry != nullptr);
  struct archive* handle = impl_->handle;
  ::archive_write_set_format_pax(handle);
  // Extended attributes as everybody reads them, once.
  ::archive_write_set_options(handle, "pax:xattrheader=SCHILY");
  ::archive_write_set_bytes_per_block(handle, 0);  // everything goes straight to the output
  if (format == ArchiveFormat::kTarGzip) {
    ::archive_write_add_filter_gzip(handle);
    // Speed counts more than the last percent; the same tree gives the same bytes.
    ::archive_write_set_options(handle, "gzip:compression-level=3,gzip:!timestamp");
  }
  if (format == ArchiveFormat::kTarZstd) {
    ::archive_write_add_filter_zstd(handle);
    ::archive_write_set_options(handle, "zstd:compression-level=3");
  }
  const auto write = [](struct archive*, void* data, const void* bytes,
                        std::size_t size) -> la_ssize_t {
    if (static_cast<Impl*>(data)->dropped) {
      return -1;
    }
    static_cast<Impl*>(data)->output.append(static_cast<const char*>(bytes), size);
    return static_cast<la_ssize_t>(size);
  };
  CHECK(::archive_write_open(handle, impl_.get(), nullptr, write, nullptr) == ARCHIVE_OK);
}

ArchiveWriter::~ArchiveWriter() {
  ::archive_entry_free(impl_->entry);
  // An output that fails ends the padding of an unfinished entry at once and still frees the state
  // of the compressor, which archive_write_fail would leak.
  impl_->dropped = true;
  ::archive_write_free(impl_->handle);
}

Result<> ArchiveWriter::begin(const ArchiveEntry& from) {
  const Utf8Thread locale;
  struct archive_entry* entry = ::archive_entry_clear(impl_->entry);
  ::archive_entry_copy_pathname(entry, from.path.c_str());
  ::archive_entry_set_filetype(entry, file_type(from.type));
  ::archive_entry_set_perm(entry, from.mode);
  ::archive_entry_set_uid(entry, from.uid);
  ::archive_entry_set_gid(entry, from.gid);
  const std::int64_t rest = (from.modified_unix_ns % kSecondNs + kSecondNs) % kSecondNs;
  ::archive_entry_set_mtime(entry, (from.modified_unix_ns - rest) / kSecondNs,
                            static_cast<long>(rest));
  ::archive_entry_set_size(entry,
                           from.type == EntryType::kFile ? static_cast<la_int64_t>(from.size) : 0);
  if (from.type == EntryType::kSymlink) {
    ::archive_entry_copy_symlink(entry, from.link_target.c_str());
  } else if (from.type == EntryType::kHardlink) {
    ::archive_entry_copy_hardlink(entry, from.link_target.c_str());
  }
  for (const ArchiveAttribute& attribute : from.attributes) {
    ::archive_entry_xattr_add_entry(entry, attribute.name.c_str(), attribute.value.data(),
                                    attribute.value.size());
  }
  const int status = ::archive_write_header(impl_->handle, entry);
  if (status != ARCHIVE_OK && status != ARCHIVE_WARN) {
    return fail(impl_->broken());
  }
  return {};
}

Result<> ArchiveWriter::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const la_ssize_t put = ::archive_write_data(impl_->handle, bytes.data(), bytes.size());
    if (put <= 0) {
      return fail(impl_->broken());
    }
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Result<> ArchiveWriter::finish() {
  const Utf8Thread locale;
  if (::archive_write_close(impl_->handle) != ARCHIVE_OK) {
    return fail(impl_->broken());
  }
  return {};
}

std::size_t ArchiveWriter::pending_bytes() const {
  return impl_->output.size();
}

std::string ArchiveWriter::take() {
  return std::exchange(impl_->output, {});
}

}  // namespace atl::oci
