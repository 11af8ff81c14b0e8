#include "control/tree_archives.h"

#include <utility>
#include <vector>

#include "base/scope.h"
#include "base/strings.h"
#include "control/archive_feed.h"
#include "control/guest_trees.h"
#include "control/limits.h"

namespace atl::control {
namespace {

using guest::Kind;

constexpr std::size_t kPieceBytes =
    std::size_t{256} * 1024;  // of an upload, and at least of a download
constexpr std::size_t kBatchBytes = std::size_t{1024} * 1024;  // compressed in one go

// What an archive has for a sandbox. Devices and the like are counted, and stay of type kSkipped:
// who reads must have a chance to pause between any two entries.
class UnpackSource final : public oci::TreeSource {
 public:
  UnpackSource(oci::ByteSource& bytes, oci::ArchiveLimits limits)
      : bytes_(bytes), limits_(limits) {}

  Result<std::optional<oci::ArchiveEntry>> next() override {
    if (!reader_) {
      TRY(reader_, oci::ArchiveReader::open({.stream = &bytes_}, limits_));
    }
    TRY(auto entry, reader_->next());
    if (entry && entry->type == oci::EntryType::kSkipped) {
      ++skipped_;
    } else if (entry && entry->path.empty()) {
      entry->type = oci::EntryType::kSkipped;  // the directory itself
    }
    return entry;
  }
  Result<std::size_t> read(std::span<char> buffer) override { return reader_->read(buffer); }
  std::uint64_t skipped() const { return skipped_; }

 private:
  oci::ByteSource& bytes_;
  const oci::ArchiveLimits limits_;
  std::unique_ptr<oci::ArchiveReader> reader_;
  std::uint64_t skipped_ = 0;
};

Task<> feed_all(ArchiveFeed& feed, TreeArchives::ReadBytes read) {
  // Pieces are as long as what came, and take no more memory than that.
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

Task<guest::TreeDone> write_from(io::OffloadPool& pool, ArchiveFeed& feed, UnpackSource& source,
                                 GuestClient client, TreeTarget target) {
  CO_TRY(const auto writer, co_await TreeWriter::open(client.reactor(), target));
  TreeBatches batches{source, target.changes};
  const auto step = [&batches, &feed] {
    feed.begin_step();
    return batches.next([&feed] { return feed.low(); });
  };
  for (;;) {
    CO_TRY_DO(co_await feed.wait_until_filled());
    const auto frames = co_await pool.run(step);
    if (!frames) {
      // So that what stays is there when the caller hears of it.
      (void)co_await writer->abandon();
      co_return fail(frames.error());
    }
    for (const auto& [kind, bytes] : *frames) {
      CO_TRY_DO(co_await writer->send(kind, bytes));
    }
    if (batches.ended()) {
      co_return co_await writer->finish();
    }
  }
}

}  // namespace

Result<oci::ArchiveEntry> to_archive_entry(const guest::TreeEntry& from) {
  oci::ArchiveEntry entry{.path = from.path,
                          .mode = from.mode,
                          .uid = from.uid,
                          .gid = from.gid,
                          .modified_unix_ns = from.modified_unix_ns,
                          .size = from.size,
                          .link_target = from.link_target};
  switch (from.type) {
    case guest::FileType::kFile:
      entry.type = oci::EntryType::kFile;
      break;
    case guest::FileType::kDirectory:
      entry.type = oci::EntryType::kDirectory;
      break;
    case guest::FileType::kSymlink:
      entry.type = oci::EntryType::kSymlink;
      break;
    case guest::FileType::kHardlink:
      entry.type = oci::EntryType::kHardlink;
      break;
    case guest::FileType::kFifo:
      entry.type = oci::EntryType::kFifo;
      break;
    case guest::FileType::kOther:
      return guest_broke_protocol("a tree with something that is no file");
  }
  for (const guest::Attribute& attribute : from.attributes) {
    entry.attributes.push_back({attribute.name, attribute.value});
  }
  return entry;
}

Task<ArchiveDownload::Item> ArchiveDownload::receive() {
  CO_TRY(const Frame frame, co_await channel_->receive(kGuestStallTimeout));
  // No bytes at all are refused: a batch is full when it has enough of them.
  if (frame.kind == Kind::kData && !frame.payload.empty() && frame.payload.size() <= left_) {
    left_ -= frame.payload.size();
    co_return Item{frame.kind, std::string{frame.payload}};
  }
  if (left_ != 0 || (frame.kind != Kind::kTreeEntry && frame.kind != Kind::kEnd) ||
      ++entries_ > guest::kMaxTreeEntries + 1) {
    co_return guest_broke_protocol("a tree with wrong frames");
  }
  if (frame.kind == Kind::kTreeEntry) {
    CO_TRY(const auto entry, from_guest(guest::decode_tree_entry(frame.payload)));
    left_ = entry.size;
  }
  co_return Item{frame.kind, std::string{frame.payload}};
}

Result<> ArchiveDownload::write(const Item& item) {
  if (item.kind == Kind::kData) {
    return writer_.write(item.bytes);
  }
  if (item.kind == Kind::kEnd) {
    ended_ = true;
    return writer_.finish();
  }
  TRY(const auto entry, guest::decode_tree_entry(item.bytes));
  TRY(const auto converted, to_archive_entry(entry));
  return writer_.begin(converted);
}

Task<> ArchiveDownload::write_batch(std::vector<Item> items) {
  const auto write_all = [this, &items]() -> Result<> {
    for (const Item& item : items) {
      TRY_DO(write(item));
    }
    return {};
  };
  if (format_ == oci::ArchiveFormat::kTar) {
    co_return write_all();
  }
  co_return co_await pool_.run(write_all);
}

Task<std::string> ArchiveDownload::next() {
  while (writer_.pending_bytes() < kPieceBytes && !ended_) {
    std::vector<Item> items;
    std::size_t bytes = 0;
    const std::size_t enough = format_ == oci::ArchiveFormat::kTar ? 1 : kBatchBytes;
    while (bytes < enough) {
      CO_TRY(auto item, co_await receive());
      bytes = item.kind == Kind::kEnd ? enough : bytes + item.bytes.size();
      items.push_back(std::move(item));
    }
    CO_TRY_DO(co_await write_batch(std::move(items)));
  }
  co_return writer_.take();
}

Task<std::unique_ptr<ArchiveDownload>> TreeArchives::download(GuestClient client,
                                                              guest::PathRequest request,
                                                              oci::ArchiveFormat format) {
  CO_TRY_DO(guest::validate_path(request.path));
  CO_TRY(auto channel, co_await GuestChannel::open(client.reactor(), client.socket_path()));
  CO_TRY_DO(co_await channel->send(Kind::kReadTree, guest::encode(request)));
  co_return std::make_unique<ArchiveDownload>(pool_, std::move(channel), format);
}

Task<Unpacked> TreeArchives::unpack(GuestClient client, UnpackRequest request, ReadBytes read) {
  CO_TRY_DO(guest::validate_path(request.path));
  TaskContext& here = co_await current_context();
  ArchiveFeed feed{*here.loop};
  UnpackSource source{feed, {.unpacked_bytes = request.max_bytes, .any_owner = true}};
  Scope feeding{here};
  feeding.on_error([](const char*, const Error&) {});
  feeding.spawn("archive feed", feed_and_close(feed, std::move(read)));
  auto done = co_await write_from(pool_, feed, source, client,
                                  {.guest_socket = client.socket_path(),
                                   .path = std::move(request.path),
                                   .changes = {},
                                   .user = std::move(request.user)});
  (void)co_await feeding.cancel_and_join();
  if (!done) {
    co_return fail(std::move(done).error());
  }
  co_return Unpacked{*done, source.skipped()};
}

}  // namespace atl::control
