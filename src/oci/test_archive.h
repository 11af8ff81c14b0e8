// What the tests of this room share: a temporary directory, tars and image layouts made on the
// spot.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/random.h"
#include "base/strings.h"
#include "oci/image.h"

namespace atl::oci {

class TestDirectory {
 public:
  TestDirectory() {
    char name[] = "/tmp/atoll-oci-XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    path_ = name;
  }
  ~TestDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string at(std::string_view name) const { return concat(path_, "/", name); }

 private:
  std::string path_;
};

// One entry of a tar to be made; `type` like ls shows it: - d l h (hard link) c (device).
struct TestEntry {
  std::string path;
  char type = '-';
  std::string content;  // or the target of a link
  unsigned mode = 0644;
  unsigned uid = 0;
  unsigned gid = 0;
};

enum class Packing : std::uint8_t { kPlain, kGzip, kZstd };

inline std::string make_tar(const std::string& path, const std::vector<TestEntry>& entries,
                            Packing packing = Packing::kPlain) {
  struct archive* out = ::archive_write_new();
  ::archive_write_set_format_pax_restricted(out);
  if (packing == Packing::kGzip) {
    ::archive_write_add_filter_gzip(out);
  } else if (packing == Packing::kZstd) {
    ::archive_write_add_filter_zstd(out);
  }
  EXPECT_EQ(::archive_write_open_filename(out, path.c_str()), ARCHIVE_OK);
  for (const TestEntry& entry : entries) {
    struct archive_entry* raw = ::archive_entry_new();
    ::archive_entry_set_pathname(raw, entry.path.c_str());
    ::archive_entry_set_perm(raw, entry.mode);
    ::archive_entry_set_uid(raw, entry.uid);
    ::archive_entry_set_gid(raw, entry.gid);
    ::archive_entry_set_mtime(raw, 1'600'000'000, 0);
    const unsigned type = entry.type == 'd'   ? AE_IFDIR
                          : entry.type == 'l' ? AE_IFLNK
                          : entry.type == 'c' ? AE_IFCHR
                                              : AE_IFREG;
    ::archive_entry_set_filetype(raw, type);
    if (entry.type == 'l') {
      ::archive_entry_set_symlink(raw, entry.content.c_str());
    } else if (entry.type == 'h') {
      ::archive_entry_set_hardlink(raw, entry.content.c_str());
    } else if (entry.type == '-') {
      ::archive_entry_set_size(raw, static_cast<la_int64_t>(entry.content.size()));
    }
    EXPECT_GE(::archive_write_header(out, raw), ARCHIVE_WARN) << ::archive_error_string(out);
    if (entry.type == '-') {
      ::archive_write_data(out, entry.content.data(), entry.content.size());
    }
    ::archive_entry_free(raw);
  }
  ::archive_write_close(out);
  ::archive_write_free(out);
  return path;
}

inline LayerBlob make_layer(const TestDirectory& directory, const std::vector<TestEntry>& entries,
                            Packing packing = Packing::kGzip) {
  const std::string path = directory.at(random_label(12));
  make_tar(path, entries, packing);
  const auto bytes = read_file(path, 1U << 28);
  EXPECT_TRUE(bytes);
  return {path, hex(sha256(*bytes))};
}

inline Fd open_file(const std::string& path) {
  return Fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
}

}  // namespace atl::oci
