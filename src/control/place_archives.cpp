// Archives of places that have no guest: made of and written as single files, one after the other.
// What the archive is, is decoded on a thread; what becomes of it happens on the loop.
#include <algorithm>

#include "base/scope.h"
#include "base/strings.h"
#include "control/archive_feed.h"
#include "control/tree_archives.h"

namespace atl::control {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} * 1024;

std::string join(std::string_view parent, std::string_view name) {
  return concat(parent, parent.empty() || parent.ends_with('/') ? "" : "/", name);
}

class PlaceDownload final : public ArchiveDownload {
 public:
  PlaceDownload(io::OffloadPool& pool, Files& files, guest::PathRequest request,
                oci::ArchiveFormat format)
      : ArchiveDownload(pool, nullptr, format), files_(files), request_(std::move(request)) {}

  Task<> begin() {
    CO_TRY(const auto info, co_await files_.stat(request_));
    if (info.type == guest::FileType::kDirectory) {
      co_return co_await enter(request_.path, "");
    }
    co_return co_await begin_file(request_.path, info.name);
  }

  Task<std::string> next() override {
    while (writer_.pending_bytes() < kPieceBytes && !ended_) {
      CO_TRY_DO(co_await step());
    }
    co_return writer_.take();
  }

 private:
  struct Level {
    std::unique_ptr<DirectoryReader> entries;
    std::string path;      // in the place
    std::string relative;  // in the archive
  };

  // Compressing takes time.
  template <class Function>
  Task<> encode(Function function) {
    if (format_ == oci::ArchiveFormat::kTar) {
      co_return function();
    }
    co_return co_await pool_.run(function);
  }

  Task<> step() {
    if (file_) {
      co_return co_await copy_piece();
    }
    if (levels_.empty()) {
      ended_ = true;
      co_return co_await encode([this] { return writer_.finish(); });
    }
    Level& level = levels_.back();
    CO_TRY(const auto entry, co_await level.entries->next());
    if (!entry) {
      levels_.pop_back();
      co_return ok();
    }
    if (++count_ > guest::kMaxTreeEntries) {
      co_return fail(Code::kResourceExhausted,
                     concat("more than ", guest::kMaxTreeEntries, " files; take a part of them"));
    }
    std::string path = join(level.path, entry->name);
    std::string relative = join(level.relative, entry->name);
    if (entry->type == guest::FileType::kFile) {
      co_return co_await begin_file(std::move(path), std::move(relative));
    }
    const oci::ArchiveEntry directory{.path = relative,
                                      .type = oci::EntryType::kDirectory,
                                      .mode = entry->mode,
                                      .uid = entry->uid,
                                      .gid = entry->gid,
                                      .modified_unix_ns = entry->modified_unix_ns};
    CO_TRY_DO(co_await encode([this, &directory] { return writer_.begin(directory); }));
    co_return co_await enter(std::move(path), std::move(relative));
  }

  Task<> enter(std::string path, std::string relative) {
    if (levels_.size() == guest::kMaxTreeDepth) {
      co_return fail(Code::kResourceExhausted, "the directories are too deep for an archive");
    }
    CO_TRY(auto entries, co_await files_.read_directory({path, request_.user}));
    levels_.push_back({std::move(entries), std::move(path), std::move(relative)});
    co_return ok();
  }

  Task<> begin_file(std::string path, std::string relative) {
    CO_TRY(file_, co_await files_.read_file({.path = std::move(path), .user = request_.user}));
    const guest::FileInfo& info = file_->info();
    left_ = info.size;
    const oci::ArchiveEntry entry{.path = std::move(relative),
                                  .mode = info.mode,
                                  .uid = info.uid,
                                  .gid = info.gid,
                                  .modified_unix_ns = info.modified_unix_ns,
                                  .size = info.size};
    co_return co_await encode([this, &entry] { return writer_.begin(entry); });
  }

  Task<> copy_piece() {
    CO_TRY(const std::string_view bytes, co_await file_->next());
    if (bytes.size() > left_ || (bytes.empty() && left_ > 0)) {
      co_return fail(Code::kDataLoss, "a file changed while it was read");
    }
    if (bytes.empty()) {
      file_.reset();
      co_return ok();
    }
    left_ -= bytes.size();
    co_return co_await encode([this, bytes] { return writer_.write(bytes); });
  }

  Files& files_;
  const guest::PathRequest request_;
  std::vector<Level> levels_;
  std::unique_ptr<FileReader> file_;
  std::uint64_t left_ = 0;  // of the file at hand
  std::uint64_t count_ = 0;
  bool ended_ = false;
};

// What one step on the thread took out of an archive.
struct Taken {
  std::optional<oci::ArchiveEntry> entry;
  std::string bytes;
  bool end = false;
};

class PlaceUnpack {
 public:
  PlaceUnpack(io::OffloadPool& pool, Files& files, UnpackRequest request, ArchiveFeed& feed)
      : pool_(pool), files_(files), request_(std::move(request)), feed_(feed) {}

  Task<Unpacked> run() {
    CO_TRY_DO(co_await files_.make_directory(
        {.path = request_.path, .user = request_.user, .make_parents = true}));
    for (;;) {
      CO_TRY_DO(co_await feed_.wait_until_filled());
      CO_TRY(Taken taken, co_await pool_.run([this] { return take(); }));
      if (taken.end) {
        co_return unpacked_;
      }
      if (taken.entry) {
        CO_TRY_DO(co_await begin(*std::move(taken.entry)));
      } else if (!taken.bytes.empty()) {
        CO_TRY_DO(co_await writer_->write(taken.bytes));
        left_ -= taken.bytes.size();
        unpacked_.done.bytes += taken.bytes.size();
      }
      if (writer_ && left_ == 0) {
        CO_TRY_DO(co_await writer_->finish());
        writer_.reset();
        ++unpacked_.done.files;
      }
    }
  }

 private:
  // On the thread.
  Result<Taken> take() {
    feed_.begin_step();
    Taken taken;
    if (!reader_) {
      TRY(reader_,
          oci::ArchiveReader::open({.stream = &feed_},
                                   {.unpacked_bytes = request_.max_bytes, .any_owner = true}));
    }
    if (left_ > 0) {
      taken.bytes.resize(kPieceBytes);
      TRY(const std::size_t got, reader_->read(taken.bytes));
      if (got == 0) {
        return fail(Code::kInvalidArgument, "the archive ends in the middle of a file");
      }
      taken.bytes.resize(got);
      return taken;
    }
    TRY(taken.entry, reader_->next());
    taken.end = !taken.entry;
    return taken;
  }

  Task<> begin(oci::ArchiveEntry entry) {
    std::string path = join(request_.path, entry.path);
    if (entry.type == oci::EntryType::kDirectory && !entry.path.empty()) {
      ++unpacked_.done.directories;
      co_return co_await files_.make_directory(
          {.path = std::move(path), .user = request_.user, .make_parents = true});
    }
    if (entry.type == oci::EntryType::kFile) {
      left_ = entry.size;
      CO_TRY(writer_, co_await files_.write_file({.path = std::move(path), .user = request_.user}));
    } else if (!entry.path.empty()) {
      ++unpacked_.skipped;
    }
    co_return ok();
  }

  io::OffloadPool& pool_;
  Files& files_;
  const UnpackRequest request_;
  ArchiveFeed& feed_;
  std::unique_ptr<oci::ArchiveReader> reader_;  // the thread's, between steps nobody's
  std::unique_ptr<FileWriter> writer_;
  std::uint64_t left_ = 0;
  Unpacked unpacked_;
};

Task<> feed_all(ArchiveFeed& feed, TreeArchives::ReadBytes read) {
  std::string buffer(kPieceBytes, '\0');
  for (;;) {
    CO_TRY(const std::size_t got, co_await read(buffer));
    if (got == 0) {
      co_return ok();
    }
    CO_TRY_DO(co_await feed.offer(buffer.substr(0, got)));
  }
}

Task<> feed_and_close(ArchiveFeed& feed, TreeArchives::ReadBytes read) {
  auto fed = co_await feed_all(feed, std::move(read));
  feed.close(fed);
  co_return std::move(fed);
}

}  // namespace

Task<std::unique_ptr<ArchiveDownload>> TreeArchives::download(Files& files,
                                                              guest::PathRequest request,
                                                              oci::ArchiveFormat format) {
  auto download = std::make_unique<PlaceDownload>(pool_, files, std::move(request), format);
  CO_TRY_DO(co_await download->begin());
  co_return std::move(download);
}

Task<Unpacked> TreeArchives::unpack(Files& files, UnpackRequest request, ReadBytes read) {
  TaskContext& here = co_await current_context();
  ArchiveFeed feed{*here.loop};
  Scope feeding{here};
  feeding.on_error([](const char*, const Error&) {});
  feeding.spawn("archive feed", feed_and_close(feed, std::move(read)));
  PlaceUnpack unpack_one{pool_, files, std::move(request), feed};
  auto done = co_await unpack_one.run();
  (void)co_await feeding.cancel_and_join();
  co_return std::move(done);
}

}  // namespace atl::control
