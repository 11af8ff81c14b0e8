// The memory of a process: what is in files is named, what is nowhere else is copied.
//
// Copied are the pages that the process has and no file does, which the page map tells, without
// those that are all zero; long stretches it never touched stay holes. A private mapping of a file
// that the process has written to (the data of programs and libraries) is copied as a whole. An
// allocator that throws pages away and takes for granted that they come back as zeroes would find
// the image again instead; the known ones get memory that is really theirs.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "base/strings.h"
#include "guest/warm_areas.h"
#include "guest/warm_capture.h"

namespace atl::guest {
namespace {

constexpr std::uint64_t kChunkBytes = 1U << 20;
constexpr std::uint64_t kShortGapBytes =
    std::uint64_t{64} * 1024;  // copied over instead of being left out
// Mappings of files up to this size are copied too: opening a file costs every child more.
constexpr std::uint64_t kSmallFileBytes = std::uint64_t{256} * 1024;
constexpr std::uint64_t kMaxScannedPages = 4ULL << 20;
constexpr std::uint64_t kPagePresent = 1ULL << 63;
constexpr std::uint64_t kPageSwapped = 1ULL << 62;
constexpr std::uint64_t kPageOfFile = 1ULL << 61;
constexpr std::array<char, kPageBytes> kZeroes{};

struct Stretch {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

class MemoryCapture {
 public:
  MemoryCapture(const CaptureSource& source, WarmImage& image) : source_(source), image_(image) {}
  Result<Fd> run();

 private:
  Result<> open_files();
  Result<> add(const Area& area);
  Result<> add_anonymous(const Area& area);
  Result<> add_stack(const Area& area);
  Result<> add_whole(const Area& area);
  Result<> add_file(const Area& area);
  Result<bool> is_untouched(const Area& area);
  // Stretches of pages for which `wanted` is true; short gaps are closed.
  template <class Wanted>
  Result<std::vector<Stretch>> find_pages(const Area& area, Wanted wanted);
  Result<> store(MappingKind kind, std::uint64_t start, std::uint64_t end,
                 std::uint32_t protection);
  Result<> copy(std::uint64_t start, std::uint64_t bytes);
  Result<> write_pages(std::string_view bytes, std::uint64_t offset);
  void map_nothing(std::uint64_t start, std::uint64_t end, std::uint32_t protection);
  bool is_still_named(const Area& area) const;
  std::uint32_t path_number(const std::string& path);

  const CaptureSource& source_;
  WarmImage& image_;
  Fd pages_;   // /proc/pid/mem
  Fd states_;  // /proc/pid/pagemap
  Fd file_;
  std::uint64_t scanned_pages_ = 0;
  std::uint64_t copied_bytes_ = 0;
  std::string buffer_;
  std::map<std::string, std::uint32_t, std::less<>> path_numbers_;
  MappingKind image_kind_ = MappingKind::kImage;
};

Result<> MemoryCapture::open_files() {
  pages_ = Fd{::open(concat("/proc/", source_.pid, "/mem").c_str(), O_RDONLY | O_CLOEXEC)};
  states_ = Fd{::open(concat("/proc/", source_.pid, "/pagemap").c_str(), O_RDONLY | O_CLOEXEC)};
  file_ = Fd{::memfd_create(kImageFileName, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!pages_ || !states_ || !file_) {
    return fail_errno("opening the memory of a process");
  }
  return {};
}

std::uint32_t MemoryCapture::path_number(const std::string& path) {
  const auto [found, added] =
      path_numbers_.emplace(path, static_cast<std::uint32_t>(image_.files.size()));
  if (added) {
    struct stat file{};
    (void)::stat(path.c_str(), &file);
    image_.files.push_back({path, static_cast<std::uint64_t>(file.st_size), modified_ns(file)});
  }
  return found->second;
}

void MemoryCapture::map_nothing(std::uint64_t start, std::uint64_t end, std::uint32_t protection) {
  if (start < end) {
    image_.mappings.push_back({.kind = MappingKind::kAnonymous,
                               .start = start,
                               .bytes = end - start,
                               .protection = protection});
  }
}

// Writes what is not zero.
Result<> MemoryCapture::write_pages(std::string_view bytes, std::uint64_t offset) {
  const auto is_zero = [&](std::uint64_t at) {
    return std::memcmp(bytes.data() + at, kZeroes.data(), kPageBytes) == 0;
  };
  for (std::uint64_t at = 0; at < bytes.size();) {
    if (is_zero(at)) {
      at += kPageBytes;
      continue;
    }
    std::uint64_t end = at + kPageBytes;
    while (end < bytes.size() && !is_zero(end)) {
      end += kPageBytes;
    }
    copied_bytes_ += end - at;
    if (copied_bytes_ > source_.max_bytes) {
      return cannot_capture(concat("it has more than ", source_.max_bytes >> 20,
                                   " MiB of memory of its own, which is all there is room for"),
                            "image_too_large");
    }
    const ssize_t written =
        ::pwrite(file_.get(), bytes.data() + at, end - at, static_cast<off_t>(offset + at));
    if (written != static_cast<ssize_t>(end - at)) {
      return fail_errno("writing the memory of a process");
    }
    at = end;
  }
  return {};
}

Result<> MemoryCapture::copy(std::uint64_t start, std::uint64_t bytes) {
  buffer_.resize(kChunkBytes);
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t wanted = std::min(kChunkBytes, bytes - done);
    const ssize_t got =
        ::pread(pages_.get(), buffer_.data(), wanted, static_cast<off_t>(start + done));
    // A page that cannot be read (behind the end of its file) is as good as none.
    const std::uint64_t whole =
        got > 0 ? static_cast<std::uint64_t>(got) / kPageBytes * kPageBytes : 0;
    if (whole == 0) {
      done += kPageBytes;
      continue;
    }
    TRY_DO(write_pages(std::string_view{buffer_}.substr(0, whole), image_.memory_bytes + done));
    done += whole;
  }
  return {};
}

Result<> MemoryCapture::store(MappingKind kind, std::uint64_t start, std::uint64_t end,
                              std::uint32_t protection) {
  const std::uint64_t bytes = end - start;
  TRY_DO(copy(start, bytes));
  image_.mappings.push_back({.kind = kind,
                             .start = start,
                             .bytes = bytes,
                             .protection = protection,
                             .offset = image_.memory_bytes});
  image_.memory_bytes += bytes;
  return {};
}

template <class Wanted>
Result<std::vector<Stretch>> MemoryCapture::find_pages(const Area& area, Wanted wanted) {
  constexpr std::uint64_t kStatesAtOnce = 8192;
  std::vector<std::uint64_t> states(kStatesAtOnce);
  std::vector<Stretch> found;
  const std::uint64_t count = area.bytes() / kPageBytes;
  scanned_pages_ += count;
  if (scanned_pages_ > kMaxScannedPages) {
    return cannot_capture("its address space is too large", "image_too_large");
  }
  for (std::uint64_t first = 0; first < count; first += kStatesAtOnce) {
    const std::uint64_t some = std::min(kStatesAtOnce, count - first);
    const auto at = static_cast<off_t>((area.start / kPageBytes + first) * sizeof(states[0]));
    const auto bytes = static_cast<ssize_t>(some * sizeof(states[0]));
    if (::pread(states_.get(), states.data(), static_cast<std::size_t>(bytes), at) != bytes) {
      return fail_errno("reading the page map of a process");
    }
    for (std::uint64_t i = 0; i < some; ++i) {
      if (!wanted(states[i])) {
        continue;
      }
      const std::uint64_t page = area.start + (first + i) * kPageBytes;
      if (!found.empty() && page - found.back().end < kShortGapBytes) {
        found.back().end = page + kPageBytes;
      } else {
        found.push_back({page, page + kPageBytes});
      }
    }
  }
  return found;
}

bool has_page(std::uint64_t state) {
  return (state & (kPagePresent | kPageSwapped)) != 0;
}

bool has_own_page(std::uint64_t state) {
  return (state & kPageSwapped) != 0 || ((state & kPagePresent) != 0 && (state & kPageOfFile) == 0);
}

Result<> MemoryCapture::add_anonymous(const Area& area) {
  TRY(const auto stretches, find_pages(area, has_page));
  std::uint64_t at = area.start;
  for (const Stretch& stretch : stretches) {
    map_nothing(at, stretch.start, area.protection);
    TRY_DO(store(image_kind_, stretch.start, stretch.end, area.protection));
    at = stretch.end;
  }
  map_nothing(at, area.end, area.protection);
  return {};
}

// What it has not reached yet comes back by growing.
Result<> MemoryCapture::add_stack(const Area& area) {
  TRY(const auto stretches, find_pages(area, has_page));
  const std::uint64_t start = stretches.empty() ? area.start : stretches.front().start;
  return store(MappingKind::kStack, start, area.end, area.protection);
}

Result<> MemoryCapture::add_whole(const Area& area) {
  return store(image_kind_, area.start, area.end, area.protection);
}

bool MemoryCapture::is_still_named(const Area& area) const {
  struct stat named{};
  return ::stat(area.name.c_str(), &named) == 0 && S_ISREG(named.st_mode) &&
         named.st_ino == area.inode;
}

Result<bool> MemoryCapture::is_untouched(const Area& area) {
  TRY(const auto own, find_pages(area, has_own_page));
  return own.empty();
}

Result<> MemoryCapture::add_file(const Area& area) {
  const bool named = !area.name.ends_with(" (deleted)") && is_still_named(area);
  if (area.shared && !named) {
    return cannot_capture(concat("it shares memory: ", std::string_view{area.name}.substr(0, 200)),
                          "shared_memory");
  }
  if (!area.shared) {
    TRY(const bool untouched, is_untouched(area));
    if (!named || !untouched || area.bytes() <= kSmallFileBytes) {
      return add_whole(area);
    }
  }
  image_.mappings.push_back({.kind = area.shared ? MappingKind::kSharedFile : MappingKind::kFile,
                             .start = area.start,
                             .bytes = area.bytes(),
                             .protection = area.protection,
                             .offset = area.offset,
                             .path = path_number(area.name)});
  return {};
}

Result<> MemoryCapture::add(const Area& area) {
  if (area.name == "[vsyscall]") {
    return {};
  }
  if (area.name == "[vdso]" || area.name.starts_with("[vvar")) {
    const KernelMapping mapping{area.start, area.bytes()};
    // The one with the code is first: it is the one a new program tells about.
    image_.kernel_mappings.insert(
        area.name == "[vdso]" ? image_.kernel_mappings.begin() : image_.kernel_mappings.end(),
        mapping);
    return {};
  }
  if (area.name.starts_with('/')) {
    return add_file(area);
  }
  if (area.shared || area.name.starts_with("anon_inode:") || area.name.starts_with("socket:")) {
    return cannot_capture(concat("it shares memory: ", std::string_view{area.name}.substr(0, 200)),
                          "shared_memory");
  }
  return area.name == "[stack]" ? add_stack(area) : add_anonymous(area);
}

Result<Fd> MemoryCapture::run() {
  TRY_DO(open_files());
  TRY(const auto areas, read_areas(source_.pid));
  if (source_.own_memory) {
    image_kind_ = MappingKind::kCopy;
  }
  for (const Area& area : areas) {
    for (const std::string_view allocator : {"jemalloc", "tcmalloc", "mimalloc"}) {
      if (area.name.find(allocator) != std::string::npos) {
        image_kind_ = MappingKind::kCopy;
      }
    }
  }
  for (const Area& area : areas) {
    TRY_DO(add(area));
    if (image_.mappings.size() > kMaxMappings || image_.files.size() > kMaxMappedFiles ||
        image_.kernel_mappings.size() > kMaxKernelMappings) {
      return cannot_capture("its memory has too many parts", "image_too_large");
    }
  }
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (::ftruncate(file_.get(), static_cast<off_t>(image_.memory_bytes)) != 0 ||
      ::fcntl(file_.get(), F_ADD_SEALS, kSeals) != 0) {
    return fail_errno("sealing the memory of a process");
  }
  return std::move(file_);
}

}  // namespace

Result<Fd> capture_memory(const CaptureSource& source, WarmImage& image) {
  return MemoryCapture{source, image}.run();
}

}  // namespace atl::guest
