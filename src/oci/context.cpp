#include "oci/context.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/strings.h"
#include "oci/digest.h"

namespace atl::oci {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} * 1024;

Result<> write_at(int fd, std::string_view bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno != EINTR) {
      return fail_errno("storing the build context");
    }
    if (put > 0) {
      offset += static_cast<std::uint64_t>(put);
      bytes.remove_prefix(static_cast<std::size_t>(put));
    }
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<BuildContext>> BuildContext::open(int archive_fd,
                                                         const std::string& directory,
                                                         ArchiveLimits limits) {
  auto context = std::make_shared<BuildContext>();
  context->spool_ = Fd{::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
  if (!context->spool_) {
    return fail_errno("making room for the build context");
  }
  TRY_DO(context->read_archive(archive_fd, limits));
  TRY_DO(context->drop_ignored());
  return context;
}

Result<> BuildContext::read_archive(int archive_fd, ArchiveLimits limits) {
  TRY(const auto reader, ArchiveReader::open({.fd = archive_fd}, limits));
  std::uint64_t end = 0;
  for (;;) {
    TRY(auto next, reader->next());
    if (!next) {
      return {};
    }
    ContextEntry item{.entry = *std::move(next)};
    if (item.entry.path.empty() || item.entry.type == EntryType::kSkipped) {
      continue;
    }
    const std::string path = item.entry.path;
    if (item.entry.type == EntryType::kHardlink) {
      const auto target = entries_.find(item.entry.link_target);
      if (target == entries_.end() || target->second.entry.type != EntryType::kFile) {
        return fail(Code::kInvalidArgument,
                    concat("the context has a hard link to nothing: ", to_valid_utf8(path)),
                    "bad_archive");
      }
      item = target->second;  // the same bytes under another name
      item.entry.path = path;
    } else if (item.entry.type == EntryType::kFile) {
      TRY_DO(spool_file(*reader, item, end));
    }
    entries_.insert_or_assign(path, std::move(item));
  }
}

Result<> BuildContext::spool_file(ArchiveReader& reader, ContextEntry& entry, std::uint64_t& end) {
  entry.offset = end;
  Sha256 digest;
  std::vector<char> buffer(kPieceBytes);
  for (;;) {
    TRY(const std::size_t got, reader.read(buffer));
    if (got == 0) {
      entry.sha256 = digest.hex_digest();
      return {};
    }
    digest.update({buffer.data(), got});
    TRY_DO(write_at(spool_.get(), {buffer.data(), got}, end));
    end += got;
  }
}

Result<> BuildContext::drop_ignored() {
  if (!entries_.contains(".dockerignore")) {
    return {};
  }
  TRY(const std::string text, read_text(".dockerignore", kMaxDockerfileBytes));
  TRY(const IgnoreRules rules, IgnoreRules::parse(text));
  for (auto at = entries_.begin(); at != entries_.end();) {
    // Directories go with their contents: an exception may keep something below one.
    if (rules.ignores(at->first)) {
      ignored_.insert(entries_.extract(at++));
    } else {
      ++at;
    }
  }
  return {};
}

Result<std::string> BuildContext::read_text(std::string_view path, std::size_t max_bytes) const {
  TRY(const std::string clean, clean_path(path));
  auto found = entries_.find(clean);
  if (found == entries_.end()) {
    found = ignored_.find(clean);
    if (found == ignored_.end()) {
      return fail(Code::kNotFound, concat("the context has no file ", to_valid_utf8(clean)));
    }
  }
  const ContextEntry& item = found->second;
  if (item.entry.type != EntryType::kFile || item.entry.size > max_bytes) {
    return fail(Code::kInvalidArgument,
                concat(to_valid_utf8(clean), " is not a file of at most ", max_bytes, " bytes"));
  }
  std::string text(item.entry.size, '\0');
  const ssize_t got =
      ::pread(spool_.get(), text.data(), text.size(), static_cast<off_t>(item.offset));
  if (got != static_cast<ssize_t>(text.size())) {
    return fail(Code::kInternal, "the build context cannot be read");
  }
  return text;
}

bool is_archive(const BuildContext& context, const ContextEntry& entry) {
  if (entry.entry.type != EntryType::kFile || entry.entry.size == 0) {
    return false;
  }
  const auto reader = ArchiveReader::open(
      {.fd = context.spool_fd(), .offset = entry.offset, .length = entry.entry.size}, {});
  return reader && (*reader)->next().has_value();
}

namespace {

class CopyTree final : public TreeSource {
 public:
  CopyTree(const BuildContext& context, const CopyPlan& plan) : context_(context), plan_(plan) {}

  Result<std::optional<ArchiveEntry>> next() override {
    if (at_ == plan_.items.size()) {
      return std::nullopt;
    }
    position_ = 0;
    return plan_.items[at_++].source.entry;
  }

  Result<std::size_t> read(std::span<char> buffer) override {
    const CopyItem& item = plan_.items[at_ - 1];
    const std::uint64_t left = item.source.entry.size - position_;
    const std::size_t want = std::min<std::uint64_t>(left, buffer.size());
    if (want == 0) {
      return std::size_t{0};
    }
    std::size_t got = want;
    if (item.in_memory) {
      item.text.copy(buffer.data(), want, position_);
    } else {
      const ssize_t count = ::pread(context_.spool_fd(), buffer.data(), want,
                                    static_cast<off_t>(item.source.offset + position_));
      if (count <= 0) {
        return fail(Code::kInternal, "the build context cannot be read");
      }
      got = static_cast<std::size_t>(count);
    }
    position_ += got;
    return got;
  }

 private:
  const BuildContext& context_;
  const CopyPlan& plan_;
  std::size_t at_ = 0;
  std::uint64_t position_ = 0;
};

class ArchiveTree final : public TreeSource {
 public:
  explicit ArchiveTree(std::unique_ptr<ArchiveReader> reader) : reader_(std::move(reader)) {}

  Result<std::optional<ArchiveEntry>> next() override {
    for (;;) {
      TRY(auto entry, reader_->next());
      if (!entry || (entry->type != EntryType::kSkipped && !entry->path.empty())) {
        return entry;
      }
    }
  }
  Result<std::size_t> read(std::span<char> buffer) override { return reader_->read(buffer); }

 private:
  std::unique_ptr<ArchiveReader> reader_;
};

}  // namespace

std::unique_ptr<TreeSource> open_copy_tree(const BuildContext& context, const CopyPlan& plan) {
  return std::make_unique<CopyTree>(context, plan);
}

Result<std::unique_ptr<TreeSource>> open_archive_tree(const BuildContext& context,
                                                      const ContextEntry& archive,
                                                      ArchiveLimits limits) {
  TRY(auto reader,
      ArchiveReader::open(
          {.fd = context.spool_fd(), .offset = archive.offset, .length = archive.entry.size},
          limits));
  return std::make_unique<ArchiveTree>(std::move(reader));
}

}  // namespace atl::oci
