#include "oci/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/strings.h"
#include "oci/digest.h"
#include "oci/utf8_thread.h"

namespace atl::oci {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{256} * 1024;

std::string_view or_empty(const char* text) {
  return text == nullptr ? "" : text;
}

}  // namespace

Result<std::string> clean_path(std::string_view path) {
  if (path.size() > kMaxPathBytes || path.find('\0') != path.npos) {
    return fail(Code::kInvalidArgument, "an archive has a path that is too long or malformed",
                "path_escapes");
  }
  std::string out;
  std::size_t depth = 0;
  for (const std::string_view part : split(path, '/')) {
    if (part.empty() || part == ".") {
      continue;
    }
    if (part == ".." || part.size() > 255 || ++depth > kMaxPathDepth) {
      return fail(Code::kInvalidArgument,
                  concat("an archive has a path that is refused: \"", to_valid_utf8(path), "\""),
                  "path_escapes");
    }
    out += out.empty() ? "" : "/";
    out += part;
  }
  return out;
}

struct ArchiveReader::Impl {
  ArchiveSource source;
  ArchiveLimits limits;
  struct archive* handle = nullptr;
  Sha256 digest;
  std::vector<char> block = std::vector<char>(kBlockBytes);
  std::uint64_t position = 0;
  const char* data = nullptr;  // what read_block() got last
  std::optional<Error> read_error;
  std::uint64_t entries = 0;
  std::uint64_t unpacked = 0;
  std::uint64_t left = 0;  // of the file at hand
  bool ended = false;

  ~Impl() {
    if (handle != nullptr) {
      ::archive_read_free(handle);
    }
  }

  // Bytes of the source, in order; 0 at the end, -1 on failure.
  ssize_t read_block() {
    if (source.stream != nullptr) {
      auto bytes = source.stream->next();
      if (!bytes) {
        read_error = std::move(bytes).error();
        return -1;
      }
      data = bytes->data();
      return static_cast<ssize_t>(bytes->size());
    }
    return read_file_block();
  }

  ssize_t read_file_block() {
    const std::uint64_t rest = source.length - position;
    const std::size_t want = rest < block.size() ? static_cast<std::size_t>(rest) : block.size();
    ssize_t got = 0;
    do {
      got = ::pread(source.fd, block.data(), want, static_cast<off_t>(source.offset + position));
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
      read_error = errno_error("reading an archive", errno);
      return -1;
    }
    position += static_cast<std::uint64_t>(got);
    data = block.data();
    if (!source.sha256.empty()) {
      digest.update({block.data(), static_cast<std::size_t>(got)});
    }
    return got;
  }

  Error broken() const {
    if (read_error) {
      return *read_error;
    }
    const std::string_view why = or_empty(::archive_error_string(handle));
    return Error{Code::kInvalidArgument, concat("the archive is damaged: ", to_valid_utf8(why)),
                 "bad_archive"};
  }
};

ArchiveReader::ArchiveReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ArchiveReader::~ArchiveReader() = default;
std::uint64_t ArchiveReader::unpacked_bytes() const {
  return impl_->unpacked;
}

Result<std::unique_ptr<ArchiveReader>> ArchiveReader::open(ArchiveSource source,
                                                           ArchiveLimits limits) {
  const Utf8Thread locale;
  auto impl = std::make_unique<Impl>();
  impl->source = std::move(source);
  impl->limits = limits;
  impl->handle = ::archive_read_new();
  CHECK(impl->handle != nullptr);
  struct archive* handle = impl->handle;
  ::archive_read_support_filter_gzip(handle);
  ::archive_read_support_filter_zstd(handle);
  ::archive_read_support_filter_xz(handle);
  ::archive_read_support_filter_bzip2(handle);
  ::archive_read_support_format_tar(handle);
  ::archive_read_support_format_empty(handle);
  const auto read = [](struct archive*, void* data, const void** buffer) -> la_ssize_t {
    auto* self = static_cast<Impl*>(data);
    const ssize_t got = self->read_block();
    *buffer = self->data;
    return got;
  };
  if (::archive_read_open(handle, impl.get(), nullptr, read, nullptr) != ARCHIVE_OK) {
    return fail(impl->broken());
  }
  return std::unique_ptr<ArchiveReader>{new ArchiveReader{std::move(impl)}};
}

namespace {

// A sandbox has ids up to 65535.
Result<std::uint32_t> convert_owner(la_int64_t id, bool any_owner, std::string_view path) {
  if (id >= 0 && id <= 65535) {
    return static_cast<std::uint32_t>(id);
  }
  if (any_owner) {
    return kNobody;
  }
  return fail(
      Code::kInvalidArgument,
      concat(to_valid_utf8(path), " belongs to an id above 65535, which a sandbox does not have"),
      "bad_archive");
}

// What a sandbox may have. Marks of an overlay (user.overlay.*) are names like others inside one.
bool is_kept_attribute(std::string_view name) {
  return (name.starts_with("user.") && name.size() > 5) || name == "security.capability" ||
         name == "system.posix_acl_access" || name == "system.posix_acl_default";
}

Result<> read_attributes(struct archive_entry* raw, ArchiveEntry& entry) {
  ::archive_entry_xattr_reset(raw);
  const char* name = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  std::size_t bytes = 0;
  while (::archive_entry_xattr_next(raw, &name, &value, &size) == ARCHIVE_OK) {
    const std::string_view text = or_empty(name);
    if (!is_kept_attribute(text) || std::ranges::any_of(entry.attributes, [&](const auto& known) {
          return known.name == text;
        })) {
      continue;
    }
    bytes += text.size() + size;
    if (text.size() > kMaxAttributeNameBytes || bytes > kMaxAttributeBytes ||
        entry.attributes.size() >= kMaxAttributes) {
      return fail(Code::kInvalidArgument,
                  concat(to_valid_utf8(entry.path), " has too many or too large attributes"),
                  "bad_archive");
    }
    entry.attributes.push_back(
        {std::string{text}, std::string{static_cast<const char*>(value), size}});
  }
  return {};
}

Result<ArchiveEntry> convert(struct archive_entry* raw, const ArchiveLimits& limits) {
  const bool any_owner = limits.any_owner;
  ArchiveEntry entry;
  TRY(entry.path, clean_path(or_empty(::archive_entry_pathname(raw))));
  entry.mode = ::archive_entry_perm(raw) & 07777U;
  constexpr std::int64_t kMaxSeconds = INT64_MAX / 1'000'000'000 - 1;
  entry.modified_unix_ns =
      std::clamp<std::int64_t>(::archive_entry_mtime(raw), -kMaxSeconds, kMaxSeconds) *
          1'000'000'000 +
      std::clamp<std::int64_t>(::archive_entry_mtime_nsec(raw), 0, 999'999'999);
  TRY(entry.uid, convert_owner(::archive_entry_uid(raw), any_owner, entry.path));
  TRY(entry.gid, convert_owner(::archive_entry_gid(raw), any_owner, entry.path));
  if (const char* target = ::archive_entry_hardlink(raw); target != nullptr) {
    entry.type = EntryType::kHardlink;
    TRY(entry.link_target, clean_path(target));
    return entry;
  }
  if (limits.whole) {
    TRY_DO(read_attributes(raw, entry));
  }
  switch (::archive_entry_filetype(raw)) {
    case AE_IFREG:
      entry.type = EntryType::kFile;
      if (::archive_entry_size(raw) < 0) {
        return fail(Code::kInvalidArgument, "an archive has a file of negative size",
                    "bad_archive");
      }
      entry.size = static_cast<std::uint64_t>(::archive_entry_size(raw));
      break;
    case AE_IFDIR:
      entry.type = EntryType::kDirectory;
      break;
    case AE_IFLNK:
      entry.type = EntryType::kSymlink;
      entry.link_target = or_empty(::archive_entry_symlink(raw));
      if (entry.link_target.empty() || entry.link_target.size() > kMaxPathBytes) {
        return fail(Code::kInvalidArgument, "an archive has a symlink without a usable target",
                    "bad_archive");
      }
      break;
    case AE_IFIFO:
      entry.type = limits.whole ? EntryType::kFifo : EntryType::kSkipped;
      break;
    default:
      entry.type = EntryType::kSkipped;
  }
  return entry;
}

}  // namespace

Result<std::optional<ArchiveEntry>> ArchiveReader::next() {
  if (impl_->ended) {
    return std::nullopt;
  }
  const Utf8Thread locale;
  struct archive_entry* raw = nullptr;
  const int status = ::archive_read_next_header(impl_->handle, &raw);
  if (status == ARCHIVE_EOF) {
    impl_->ended = true;
    return std::nullopt;
  }
  if (status != ARCHIVE_OK && status != ARCHIVE_WARN) {
    return fail(impl_->broken());
  }
  if (++impl_->entries > impl_->limits.entries) {
    return fail(Code::kResourceExhausted,
                concat("the archive has more than ", impl_->limits.entries, " entries"),
                "archive_too_large");
  }
  TRY(ArchiveEntry entry, convert(raw, impl_->limits));
  if (entry.size > impl_->limits.unpacked_bytes - impl_->unpacked) {
    return fail(
        Code::kResourceExhausted,
        concat("the archive unpacks to more than ", format_quantity(impl_->limits.unpacked_bytes)),
        "archive_too_large");
  }
  impl_->unpacked += entry.size;
  impl_->left = entry.size;
  return entry;
}

Result<std::size_t> ArchiveReader::read(std::span<char> buffer) {
  if (impl_->left == 0 || buffer.empty()) {
    return std::size_t{0};
  }
  const Utf8Thread locale;
  const std::size_t want = std::min<std::uint64_t>(buffer.size(), impl_->left);
  const la_ssize_t got = ::archive_read_data(impl_->handle, buffer.data(), want);
  if (got <= 0) {
    return fail(impl_->broken());
  }
  impl_->left -= static_cast<std::uint64_t>(got);
  return static_cast<std::size_t>(got);
}

Result<> ArchiveReader::finish() {
  CHECK(impl_->ended);
  if (impl_->source.sha256.empty()) {
    return {};
  }
  for (;;) {
    const ssize_t got = impl_->read_block();
    if (got < 0) {
      return fail(impl_->broken());
    }
    if (got == 0) {
      break;
    }
  }
  if (impl_->digest.hex_digest() != impl_->source.sha256) {
    return fail(Code::kDataLoss,
                concat("the content does not have the digest sha256:", impl_->source.sha256,
                       " it is named by"),
                "bad_digest");
  }
  return {};
}

}  // namespace atl::oci
