// Tar archives, compressed or not, that anybody may have made: read entry by entry, as a build
// context, and as the layers of an image. Nothing that comes out may leave its root or its bounds.
#include "oci/archive.h"

#include <array>

#include "base/random.h"
#include "oci/context.h"
#include "oci/image_tree.h"
#include "tar_bytes.h"
#include "temporary.h"

namespace atl::fuzz {
namespace {

constexpr oci::ArchiveLimits kLimits{.entries = 100, .unpacked_bytes = 1U << 20};

void check_path(std::string_view path) {
  CHECK(!path.starts_with('/') && !path.ends_with('/') && path.size() <= oci::kMaxPathBytes);
  for (const auto part : split(path, '/')) {
    CHECK(part != ".." && part != "." && (!part.empty() || path.empty()));
  }
  CHECK(path.find('\0') == path.npos);
}

void check_entry(const oci::ArchiveEntry& entry) {
  check_path(entry.path);
  CHECK(entry.mode <= 07777);
  if (entry.type == oci::EntryType::kHardlink) {
    check_path(entry.link_target);
  }
}

void read_entries(int file) {
  auto reader = oci::ArchiveReader::open({.fd = file}, kLimits);
  if (!reader) {
    return;
  }
  std::array<char, 1000> buffer;
  std::uint64_t entries = 0;
  for (;;) {
    const auto entry = (*reader)->next();
    if (!entry || !*entry) {
      break;
    }
    CHECK(++entries <= kLimits.entries);
    check_entry(**entry);
    std::uint64_t bytes = 0;
    while ((*entry)->type == oci::EntryType::kFile) {
      const auto got = (*reader)->read(buffer);
      if (!got || *got == 0) {
        CHECK(!got || bytes == (*entry)->size);
        break;
      }
      bytes += *got;
    }
  }
  CHECK((*reader)->unpacked_bytes() <= kLimits.unpacked_bytes + buffer.size());
}

void read_tree(oci::TreeSource& tree) {
  std::array<char, 1000> buffer;
  for (;;) {
    const auto entry = tree.next();
    if (!entry || !*entry) {
      return;
    }
    check_entry(**entry);
    CHECK((*entry)->type != oci::EntryType::kSkipped);
    while ((*entry)->type == oci::EntryType::kFile) {
      const auto got = tree.read(buffer);
      if (!got || *got == 0) {
        break;
      }
    }
  }
}

}  // namespace

void archive(std::string_view bytes) {
  const auto input = with_right_checksums(std::string{bytes});
  const auto file = file_of(input);
  read_entries(file.get());
  if (const auto context = oci::BuildContext::open(file.get(), "/dev/shm", kLimits)) {
    for (const auto& [path, entry] : (*context)->entries()) {
      check_path(path);
    }
    if (const auto plans = oci::plan_copy(**context, {.sources = {"*"}, .destination = "/d/"})) {
      for (const auto& plan : plans->plans) {
        read_tree(*oci::open_copy_tree(**context, plan));
      }
    }
  }
  const auto path = concat("/proc/self/fd/", file.get());
  const oci::LayerBlob layer{path, hex(sha256(input))};
  if (const auto tree = oci::open_image_tree(
          {layer, layer}, {.unpacked_bytes = kLimits.unpacked_bytes, .entries = 100})) {
    read_tree(**tree);
  }
  (void)oci::clean_path(input);
}

Seeds archive_seeds() {
  return tar_seeds();
}

}  // namespace atl::fuzz
